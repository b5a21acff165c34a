import { dense, type Weights } from "../nn/index.js";
import { chunk, type Tensor } from "../tensor/index.js";

/** The name of the fused projection of an attention, next to the names of its parts. */
export const fusedName = "projections";

type Projections = [Tensor, Tensor, Tensor];

/**
 * Computes query, key and value of an attention, each [batch, length, hidden], from the three
 * matrices of a checkpoint or from the fused one. With `firstOnly`, the query has only the first
 * position.
 */
export function projectQkv(
  weights: Weights,
  attention: string,
  parts: readonly [string, string, string],
  hidden: Tensor,
  firstOnly: boolean,
): Projections {
  if (!weights.has(`${attention}.${fusedName}.bias`))
    return parts.map((part, i) =>
      dense(weights, `${attention}.${part}`, firstOnly && i === 0 ? hidden.narrow(1, 0, 1) : hidden),
    ) as Projections;
  const [query, key, value] = chunk(dense(weights, `${attention}.${fusedName}`, hidden), 3, -1) as Projections;
  return [firstOnly ? query.narrow(1, 0, 1) : query, key, value];
}
