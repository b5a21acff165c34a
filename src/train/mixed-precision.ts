import { fuseQkv, type Model } from "../models/index.js";
import { copyAll_, type Weights } from "../nn/index.js";
import { type DType, empty, free, keep, noGrad, scope, type Tensor } from "../tensor/index.js";

/** Where a parameter's copy lies: rows of a leaf that passes read. */
interface LowPrecisionCopy {
  readonly leaf: Tensor;
  /** The parameter's part of anything shaped like the leaf. */
  slice(whole: Tensor): Tensor;
}

const copies = new WeakMap<Tensor, LowPrecisionCopy>();

/** The copy that passes read in a parameter's stead, where it has one. */
export function getLowPrecisionCopy(parameter: Tensor): LowPrecisionCopy | undefined {
  return copies.get(parameter);
}

/**
 * A copy of the weights in the type that matrices are multiplied in, with the three projections of each attention in one matrix.
 * It is refreshed from the float32 weights before each update, all tensors in a few launches; gradients are taken with respect to the
 * copy and brought back likewise (`gradientsOf`). Casting tensor by tensor cost an eighth of a BERT-base step on an H200.
 */
export class LowPrecisionWeights {
  readonly weights: Weights;
  readonly #parameters: Tensor[] = [];
  readonly #places: Tensor[] = [];

  constructor(model: Pick<Model, "architecture" | "weights">, type: DType) {
    this.weights = noGrad(() =>
      scope(() => {
        const made = new Map<string, Tensor>();
        for (const { name, parts, shape } of fuseQkv(model.architecture.config, model.weights)) {
          const leaf = keep(empty(shape, { dtype: type, device: (parts[0] as Tensor).device })).requiresGrad_();
          let start = 0;
          for (const parameter of parts) {
            const [from, count] = [start, parameter.size(0)];
            const part = (whole: Tensor): Tensor => (parts.length === 1 ? whole : whole.narrow(0, from, count));
            copies.set(parameter, { leaf, slice: part });
            this.#parameters.push(parameter);
            this.#places.push(keep(part(leaf.detach())));
            start += count;
          }
          made.set(name, leaf);
        }
        return made;
      }),
    );
    this.refresh();
  }

  /** Copies the weights as they are now. */
  refresh(): void {
    noGrad(() => copyAll_(this.#places, this.#parameters));
  }

  dispose(): void {
    for (const parameter of this.#parameters) copies.delete(parameter);
    free([...this.#places, ...this.weights.values()]);
  }
}
