import { type FusedParameter, fuseQkv, type Model } from "../models/index.js";
import { copyAll_, flattenTensors, getNumel, unflattenTensors, type Weights } from "../nn/index.js";
import {
  type DType,
  empty,
  emptyLike,
  foreachAdd_,
  free,
  gradOrNull,
  keep,
  noGrad,
  scope,
  type Tensor,
  zerosLike,
} from "../tensor/index.js";
import type { NamedTensors } from "./training-method.js";

/** The low-precision copy of a parameter: some rows of a leaf tensor. */
interface LowPrecisionCopy {
  readonly leaf: Tensor;
  readonly target: Tensor;
  /** Returns the rows of the parameter in a tensor that has the shape of the leaf. */
  slice(tensor: Tensor): Tensor;
}

/**
 * A copy of the weights in the compute dtype, with the query, key and value projections of each
 * attention fused. It is refreshed from the float32 weights before each step, in a few kernel
 * launches. `computeGradients` maps the gradients of the copy back to the parameters. Casting each
 * tensor separately took an eighth of a BERT-base step on an H200.
 */
export class LowPrecisionWeights {
  readonly weights: Weights;
  readonly #copies = new Map<Tensor, LowPrecisionCopy>();

  constructor(model: Pick<Model, "architecture" | "weights">, dtype: DType) {
    this.weights = noGrad(() =>
      scope(() => {
        const leaves = new Map<string, Tensor>();
        for (const { name, parts, shape } of fuseQkv(model.architecture.config, model.weights)) {
          const leaf = empty(shape, { dtype, device: parts[0]!.device }).requiresGrad_();
          let start = 0;
          for (const parameter of parts) {
            const [from, count] = [start, parameter.size(0)];
            const slice = (tensor: Tensor): Tensor => (parts.length === 1 ? tensor : tensor.narrow(0, from, count));
            this.#copies.set(parameter, { leaf, target: slice(leaf.detach()), slice });
            start += count;
          }
          leaves.set(name, leaf);
        }
        this.refresh();
        // Kept only after all of it is created: memory may run out in between.
        keep(this.#listTargets());
        return keep(leaves);
      }),
    );
  }

  getCopy(parameter: Tensor): LowPrecisionCopy | undefined {
    return this.#copies.get(parameter);
  }

  refresh(): void {
    noGrad(() => copyAll_(this.#listTargets(), [...this.#copies.keys()]));
  }

  #listTargets(): Tensor[] {
    return [...this.#copies.values()].map(({ target }) => target);
  }

  dispose(): void {
    free([...this.#listTargets(), ...this.weights.values()]);
  }
}

/** Tensors are aligned to this many 16-bit elements (16 bytes), the width of a vectorized read. */
const alignment = 8;

/** Casts weights that a method computed, differentiably and in a few kernel launches. */
export function castWeights(config: Model["architecture"]["config"], weights: Weights, dtype: DType): Weights {
  const fused = fuseQkv(config, weights);
  const isTrained = ({ parts }: FusedParameter): boolean => parts.some(({ requiresGrad }) => requiresGrad);
  // Frozen weights have a buffer of their own, so that their gradients are not computed.
  return new Map([
    ...castPieces(fused.filter(isTrained), dtype),
    ...castPieces(
      fused.filter((piece) => !isTrained(piece)),
      dtype,
    ),
  ]);
}

/** Casts the pieces in one buffer. Unaligned pieces come last, so that the others stay aligned. */
function castPieces(fused: readonly FusedParameter[], dtype: DType): Weights {
  if (fused.length === 0) return new Map();
  const isAligned = ({ shape }: FusedParameter): boolean => getNumel(shape) % alignment === 0;
  const ordered = [...fused.filter(isAligned), ...fused.filter((piece) => !isAligned(piece))];
  const pieces = scope(() =>
    unflattenTensors(
      flattenTensors(ordered.flatMap(({ parts }) => parts)).to(dtype),
      ordered.map(({ shape }) => shape),
    ),
  );
  return new Map(ordered.map(({ name }, i) => [name, pieces[i]!]));
}

/**
 * Computes the gradients of a loss by parameter, in the dtype of the parameter. An unused parameter
 * gets a zero gradient, so that every step updates the same tensors. If a pass used the
 * low-precision copy of a parameter, the gradient of the copy counts. With `keepsDtype`, such a
 * gradient stays in the dtype of the copy.
 */
export function computeGradients(
  loss: Tensor,
  parameters: NamedTensors,
  lowPrecisionWeights: LowPrecisionWeights | null = null,
  { retainGraph = false, keepsDtype = false } = {},
): NamedTensors {
  const tensors = [...parameters.values()];
  const copies = tensors.map((tensor) => lowPrecisionWeights?.getCopy(tensor));
  const leaves = [...new Set(copies.flatMap((copy) => (copy ? [copy.leaf] : [])))];
  const found = gradOrNull(loss, [...tensors, ...leaves], { retainGraph });
  const leafGradients = new Map(leaves.map((leaf, i) => [leaf, found[tensors.length + i] ?? null]));
  return noGrad(() => {
    const targets: Tensor[] = [];
    const sources: Tensor[] = [];
    const gradients = tensors.map((tensor, i) => {
      const direct = found[i] ?? null;
      const copy = copies[i];
      const leafGradient = copy && leafGradients.get(copy.leaf);
      if (!copy || !leafGradient) return { direct: direct ?? zerosLike(tensor), target: null };
      if (keepsDtype && !direct) return { direct: copy.slice(leafGradient), target: null };
      const target = emptyLike(tensor);
      targets.push(target);
      sources.push(copy.slice(leafGradient));
      return { direct, target };
    });
    copyAll_(targets, sources);
    const both = gradients.filter(({ direct, target }) => direct && target);
    if (both.length > 0)
      foreachAdd_(
        both.map(({ target }) => target as Tensor),
        both.map(({ direct }) => direct as Tensor),
        1,
      );
    return new Map(
      [...parameters.keys()].map((name, i) => [name, (gradients[i]!.target ?? gradients[i]!.direct) as Tensor]),
    );
  });
}
