import type { Weights } from "../nn/index.js";
import { keep, noGrad, operator, type Rng, randn, scope, seedGenerator, type Tensor } from "../tensor/index.js";

/** A direction in the space of a model's weights; weights that it leaves alone are not in it. */
export type Direction = ReadonlyMap<string, Tensor>;

/**
 * A random direction with filter-wise normalisation (Li et al. 2018): each row of a matrix is Gaussian and as long as the model's own
 * row. Vectors (biases, normalisations) stay. The draw depends on the stream and the parameter's name alone, so models that
 * are compared get the same one, each in its own measure. It lives until freed.
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
          const drawn = randn(tensor.shape).toDevice(tensor.device);
          return keep(drawn.mul(computeRowNorms(tensor).div(computeRowNorms(drawn))));
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

/** The cosine of two directions: near 0 where they are drawn apart, in so many dimensions. */
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

// One pass over the weights each, where a product and a sum would take two: most of a point's time goes into these.
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
