import type { Weights } from "../nn/index.js";
import { keep, noGrad, operator, type Rng, randn, scope, seedGenerator, type Tensor } from "../tensor/index.js";

/** A direction in the space of a model's weights. It contains only the weights that it changes. */
type Direction = ReadonlyMap<string, Tensor>;

/**
 * Samples a direction with filter-wise normalization (Li et al. 2018): each row of a matrix is
 * Gaussian and has the norm of the model's row. Vectors (biases, layer norms) do not change. The
 * sample depends only on the stream and the parameter's name, so compared models get the same
 * direction, each scaled to its weights. The caller frees it.
 */
export function sampleDirection(weights: Weights, rng: Rng): Direction {
  const direction = new Map<string, Tensor>();
  for (const [name, tensor] of weights) {
    if (tensor.shape.length < 2) continue;
    seedGenerator("cpu", rng.fork(name).seed());
    direction.set(
      name,
      noGrad(() =>
        scope(() => {
          const sample = randn(tensor.shape).toDevice(tensor.device);
          return keep(sample.mul(computeRowNorms(tensor).div(computeRowNorms(sample))));
        }),
      ),
    );
  }
  return direction;
}

function computeRowNorms(tensor: Tensor): Tensor {
  const inner = tensor.shape.slice(1).map((_, i) => i + 1);
  return tensor.detach().norm(inner, true);
}

/** The cosine of two directions. For independent samples in many dimensions it is near 0. */
export function computeCosine(first: Direction, second: Direction): number {
  let [product, one, two] = [0, 0, 0];
  for (const [name, a] of first) {
    const b = second.get(name) as Tensor;
    const sums = scope(() => [a.mul(b), a.square(), b.square()].map((tensor) => tensor.sum().item()));
    product += sums[0]!;
    one += sums[1]!;
    two += sums[2]!;
  }
  return product / Math.sqrt(one * two);
}

// One pass over the weights each, instead of two for a product and a sum. These take most of the
// time of a point.
const addScaled = operator<(self: Tensor, other: Tensor, factor: number) => Tensor>("add", "Tensor");
const addScaled_ = operator<(self: Tensor, other: Tensor, factor: number) => void>("add_", "Tensor");

/** theta + alpha delta + beta eta (ROSE eq. 6). */
export function shiftWeights(weights: Weights, delta: Direction, alpha: number, eta: Direction, beta: number): Weights {
  return noGrad(() => {
    const moved = new Map(weights);
    for (const [name, direction] of delta) {
      const sum = addScaled(weights.get(name)!, direction, alpha);
      addScaled_(sum, eta.get(name)!, beta);
      moved.set(name, sum);
    }
    return moved;
  });
}
