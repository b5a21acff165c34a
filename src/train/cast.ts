import { fuseQkv, type Model } from "../models/index.js";
import { flattenTensors, getNumel, unflattenTensors, type Weights } from "../nn/index.js";
import { type DType, scope } from "../tensor/index.js";

/** Elements of 16 bytes in a 16-bit type: products read that many at once. */
const alignment = 8;

/**
 * Weights that a layer has made, in another type and with the three projections of each attention in one matrix: through autograd, in a
 * few launches. For the model's own there is a copy that stays (shadow.ts).
 */
export function castWeights(config: Model["architecture"]["config"], weights: Weights, type: DType): Weights {
  const fused = fuseQkv(config, weights);
  const aligned = ({ shape }: { shape: readonly number[] }): boolean => getNumel(shape) % alignment === 0;
  // All pieces lie in one tensor: behind one of an odd size the others would begin where nothing can be read at once.
  const ordered = [...fused.filter(aligned), ...fused.filter((piece) => !aligned(piece))];
  const pieces = scope(() =>
    unflattenTensors(
      flattenTensors(ordered.flatMap(({ parts }) => parts)).to(type),
      ordered.map(({ shape }) => shape),
    ),
  );
  return new Map(ordered.map(({ name }, i) => [name, pieces[i]!]));
}
