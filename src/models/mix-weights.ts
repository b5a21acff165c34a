import { UserError } from "../base/errors.js";
import { mapWeights, type Weights } from "../nn/index.js";
import { noGrad, type Tensor } from "../tensor/index.js";

function getMatching(weights: Weights, name: string, { shape }: Tensor): Tensor {
  const tensor = weights.get(name);
  if (!tensor || tensor.shape.join() !== shape.join())
    throw new UserError(`The two models differ in the shape of ${name}. Use runs of the same model and task.`);
  return tensor;
}

/** (1 - alpha) theta + alpha theta' (ROSE eq. 7, WiSE-FT), bitwise exact at 0 and 1. */
export function interpolateWeights(from: Weights, to: Weights, alpha: number): Map<string, Tensor> {
  return noGrad(() =>
    mapWeights(from, (tensor, name) => {
      const other = getMatching(to, name, tensor);
      if (alpha === 0 || alpha === 1) return alpha === 0 ? tensor : other;
      return tensor.mul(1 - alpha).add(other.mul(alpha));
    }),
  );
}
