import { canPack, dense, getParameter, packWeight, type Weights } from "../nn/index.js";
import { cat, chunk, keep, noGrad, scope, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";

const qkvNames = ["query", "key", "value"] as const;
const fusedName = "projections";

/**
 * Computes query, key and value of an attention, each [batch, length, hidden], from the three
 * matrices of a checkpoint or from the fused one. With `firstOnly`, the query has only the first
 * position.
 */
export function projectQkv(
  weights: Weights,
  name: string,
  hidden: Tensor,
  firstOnly: boolean,
): readonly [Tensor, Tensor, Tensor] {
  type Projections = [Tensor, Tensor, Tensor];
  if (!weights.has(`${name}.${fusedName}.bias`))
    return qkvNames.map((part) =>
      dense(weights, `${name}.${part}`, firstOnly && part === "query" ? hidden.narrow(1, 0, 1) : hidden),
    ) as Projections;
  const [query, key, value] = chunk(dense(weights, `${name}.${fusedName}`, hidden), 3, -1) as Projections;
  return [firstOnly ? query.narrow(1, 0, 1) : query, key, value];
}

/** A parameter that is the concatenation of other parameters along the first dimension. */
export interface FusedParameter {
  readonly name: string;
  readonly parts: readonly Tensor[];
  readonly shape: readonly number[];
}

/** Lists the weights with the three projections of each attention fused into one. */
export function fuseQkv(config: EncoderConfig, weights: Weights): FusedParameter[] {
  const result: FusedParameter[] = [];
  const pattern = /^(.*\.attention\.self)\.(query|key|value)\.(weight|bias)$/;
  for (const [name, tensor] of weights) {
    const [, attention, part, kind] = pattern.exec(name) ?? [];
    if (!attention) result.push({ name, parts: [tensor], shape: tensor.shape });
    else if (part === "query") {
      const parts = qkvNames.map((qkvName) => getParameter(weights, `${attention}.${qkvName}.${kind}`));
      const [rows = 1, ...row] = tensor.shape;
      result.push({ name: `${attention}.${fusedName}.${kind}`, parts, shape: [rows * parts.length, ...row] });
    }
  }
  if (result.filter(({ parts }) => parts.length === 3).length !== 2 * config.numHiddenLayers)
    throw new Error("the weights lack some attention projections");
  return result;
}

const denseInLayer = /\.encoder\.layer\.\d+\..*\.(dense|query|key|value)\.weight$/;

/**
 * Prepares weights for inference on a CPU: packs the dense layers of the encoder, with query, key
 * and value fused. Tensors that are not packed are shared. The last layer is not fused, because it
 * computes the query of the first position only. Returns null if packing is not supported.
 */
export function packForInference(config: EncoderConfig, weights: Weights): Map<string, Tensor> | null {
  if ([...weights.values()].some(({ dtype }) => dtype !== "float32") || !canPack()) return null;
  const lastLayer = `.layer.${config.numHiddenLayers - 1}.`;
  const packed = new Map<string, Tensor>();
  const add = (name: string, tensor: Tensor): void => {
    if (denseInLayer.test(name) || name.endsWith(`.${fusedName}.weight`))
      packed.set(name.replace(/weight$/, "packed"), keep(packWeight(tensor)));
    else packed.set(name, tensor);
  };
  const packAll = (): void => {
    for (const { name, parts } of fuseQkv(config, weights)) {
      if (parts.length === 1) add(name, parts[0]!);
      else if (!name.includes(lastLayer)) {
        const fused = cat(parts, 0);
        add(name, name.endsWith(".bias") ? keep(fused) : fused);
      }
    }
    for (const [name, tensor] of weights)
      if (name.includes(lastLayer) && name.includes(".attention.self.")) add(name, tensor);
  };
  scope(() => noGrad(packAll));
  return packed;
}
