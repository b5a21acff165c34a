import { dense, type Weights } from "../nn/index.js";
import { chunk, type Tensor } from "../tensor/index.js";

/** The name of the fused projection of an attention, next to the names of its parts. */
export const fusedName = "projections";

type Projections = [Tensor, Tensor, Tensor];

/** Computes query, key and value [batch, length, hidden] from three matrices or the fused one. */
export function projectQkv(
  weights: Weights,
  attention: string,
  parts: readonly [string, string, string],
  hidden: Tensor,
  selectQuery: (tensor: Tensor) => Tensor,
): Projections {
  if (!weights.has(`${attention}.${fusedName}.bias`))
    return parts.map((part, i) =>
      dense(weights, `${attention}.${part}`, i === 0 ? selectQuery(hidden) : hidden),
    ) as Projections;
  const [query, key, value] = chunk(dense(weights, `${attention}.${fusedName}`, hidden), 3, -1) as Projections;
  return [selectQuery(query), key, value];
}
