import { canPack, packWeight, type Weights } from "../nn/index.js";
import { cat, keep, noGrad, scope, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";
import { fuseQkv } from "./fused-qkv.js";

const denseInLayer = /\.encoder\.layer\.\d+\..*\.(dense|query|key|value)\.weight$/;

/**
 * Weights for inference on a CPU: those of the encoder's dense layers packed, with query, key and value in one. What is not packed is
 * shared. The last layer's projections stay apart, since its query is asked for by one position alone. Null where nothing packs.
 */
export function packForInference(config: EncoderConfig, weights: Weights): Map<string, Tensor> | null {
  if ([...weights.values()].some(({ dtype: type }) => type !== "float32") || !canPack()) return null;
  const last = `.layer.${config.numHiddenLayers - 1}.`;
  const packed = new Map<string, Tensor>();
  const add = (name: string, tensor: Tensor): void => {
    if (denseInLayer.test(name) || name.endsWith(".projections.weight"))
      packed.set(name.replace(/weight$/, "packed"), keep(packWeight(tensor)));
    else packed.set(name, tensor);
  };
  const packAll = (): void => {
    for (const { name, parts } of fuseQkv(config, weights)) {
      if (parts.length === 1) add(name, parts[0]!);
      else if (!name.includes(last)) {
        const whole = cat(parts, 0);
        add(name, name.endsWith(".bias") ? keep(whole) : whole);
      }
    }
    for (const [name, tensor] of weights)
      if (name.includes(last) && name.includes(".attention.self.")) add(name, tensor);
  };
  scope(() => noGrad(packAll));
  return packed;
}
