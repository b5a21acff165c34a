import { dense, getParameter, type Weights } from "../nn/index.js";
import { chunk, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";

const qkvNames = ["query", "key", "value"] as const;
const fusedName = "projections";

/**
 * Query, key and value of an attention: [batch, length, hidden] each, from a checkpoint's three matrices, or from one where the weights
 * were fused. Queries are asked for by the first position alone where `first` is set.
 */
export function projectQkv(
  weights: Weights,
  name: string,
  hidden: Tensor,
  first: boolean,
): readonly [Tensor, Tensor, Tensor] {
  if (weights.has(`${name}.${fusedName}.bias`)) {
    const [query, key, value] = chunk(dense(weights, `${name}.${fusedName}`, hidden), 3, -1) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    return [first ? query.narrow(1, 0, 1) : query, key, value];
  }
  const [query, key, value] = qkvNames.map((part) =>
    dense(weights, `${name}.${part}`, first && part === "query" ? hidden.narrow(1, 0, 1) : hidden),
  );
  return [query as Tensor, key as Tensor, value as Tensor];
}

/** Parameters one above the other as a single tensor. */
export interface FusedParameter {
  readonly name: string;
  readonly parts: readonly Tensor[];
  readonly shape: readonly number[];
}

/** The weights with each attention's three projections in one. */
export function fuseQkv(config: EncoderConfig, weights: Weights): FusedParameter[] {
  const result: FusedParameter[] = [];
  const pattern = /^(.*\.attention\.self)\.(query|key|value)\.(weight|bias)$/;
  for (const [name, tensor] of weights) {
    const [, attention, part, kind] = pattern.exec(name) ?? [];
    if (!attention) result.push({ name, parts: [tensor], shape: tensor.shape });
    else if (part === "query") {
      const parts = qkvNames.map((each) => getParameter(weights, `${attention}.${each}.${kind}`));
      const [rows = 1, ...row] = tensor.shape;
      result.push({ name: `${attention}.${fusedName}.${kind}`, parts, shape: [rows * parts.length, ...row] });
    }
  }
  if (result.filter(({ parts }) => parts.length === 3).length !== 2 * config.numHiddenLayers)
    throw new Error("the weights do not hold every attention's projections");
  return result;
}
