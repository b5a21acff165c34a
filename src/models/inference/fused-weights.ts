import { type CpuPrecision, canPrepare, getParameter, prepareWeight, type Weights } from "../../nn/index.js";
import { cat, type DType, keep, noGrad, scope, type Tensor } from "../../tensor/index.js";
import { fusedName } from "../attention-projections.js";
import type { EncoderConfig } from "../families/family.js";
import { getFamily, getLayerIndex, isHeadParameter, isPoolerParameter } from "../families/index.js";

/** A parameter that is the concatenation of other parameters along the first dimension. */
export interface FusedParameter {
  readonly name: string;
  readonly parts: readonly Tensor[];
  readonly shape: readonly number[];
}

/** Lists the weights with the three projections of each attention fused into one. */
export function fuseQkv(config: EncoderConfig, weights: Weights): FusedParameter[] {
  const { projections, listAttentions } = getFamily(config);
  const result: FusedParameter[] = [];
  const fused = new Map<string, FusedParameter | null>();
  for (const attention of projections ? listAttentions(config) : []) {
    for (const kind of ["weight", "bias"]) {
      const names = projections!.map((part) => `${attention}.${part}.${kind}`);
      const parts = names.map((name) => getParameter(weights, name));
      const [rows = 1, ...row] = parts[0]!.shape;
      for (const name of names) fused.set(name, null);
      const shape = [rows * parts.length, ...row];
      fused.set(names[0]!, { name: `${attention}.${fusedName}.${kind}`, parts, shape });
    }
  }
  for (const [name, tensor] of weights) {
    const parameter = fused.get(name);
    if (parameter === undefined) result.push({ name, parts: [tensor], shape: tensor.shape });
    else if (parameter) result.push(parameter);
  }
  return result;
}

export function castForInference(config: EncoderConfig, weights: Weights, dtype: DType): Map<string, Tensor> {
  return noGrad(() =>
    scope(() =>
      keep(
        new Map(
          fuseQkv(config, weights).map(({ name, parts }) => [
            name,
            (parts.length === 1 ? parts[0]! : cat(parts, 0)).to(dtype),
          ]),
        ),
      ),
    ),
  );
}

/**
 * Prepares weights for inference on a CPU: the dense layers of the encoder, with query, key and
 * value fused. Tensors that do not change are shared. The last layer is not fused, because it
 * computes the query of the first position only, unless other layers share it. Returns null if
 * there are no kernels for it.
 */
export function prepareForInference(
  config: EncoderConfig,
  weights: Weights,
  precision: CpuPrecision = "float32",
): Map<string, Tensor> | null {
  if ([...weights.values()].some(({ dtype }) => dtype !== "float32")) return null;
  if (!canPrepare(precision)) return null;
  const { projections, listAttentions, packable = false } = getFamily(config);
  // Between products in 8 bits, numbers have 16 bits if all layers are our own.
  const dtype = precision !== "int8" ? precision : packable ? "bfloat16" : "float32";
  const attentions = projections ? listAttentions(config) : [];
  const lastAttention = attentions.length === config.numHiddenLayers ? `${attentions.at(-1)}.` : null;
  const result = new Map<string, Tensor>();
  const add = (name: string, tensor: Tensor): void => {
    const isDenseInLayer = getLayerIndex(name) !== null && name.endsWith(".weight") && tensor.shape.length === 2;
    if (isDenseInLayer) {
      for (const [part, value] of Object.entries<Tensor>({ ...prepareWeight(tensor, precision) }))
        result.set(name.replace(/weight$/, part), keep(value));
      return;
    }
    // A head is small: it stays in float32.
    const isHead = isHeadParameter(name) || isPoolerParameter(name);
    result.set(name, dtype === "float32" || isHead ? tensor : keep(tensor.to(dtype)));
  };
  const addAll = (): void => {
    for (const { name, parts } of fuseQkv(config, weights)) {
      if (lastAttention !== null && name.startsWith(lastAttention)) continue;
      if (parts.length === 1) add(name, parts[0]!);
      else {
        const fused = cat(parts, 0);
        add(name, name.endsWith(".bias") && dtype === "float32" ? keep(fused) : fused);
      }
    }
    if (lastAttention === null) return;
    for (const [name, tensor] of weights) if (name.startsWith(lastAttention)) add(name, tensor);
  };
  scope(() => noGrad(addAll));
  return result;
}
