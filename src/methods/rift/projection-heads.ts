import { getParameter, type Weights } from "../../nn/index.js";
import {
  type Device,
  keep,
  noGrad,
  type Rng,
  scope,
  seedGenerator,
  type Tensor,
  uniform_,
  zeros,
} from "../../tensor/index.js";

/** Creates g1 (student) and g2 (teacher) of all classes, initialized like PyTorch's linear layers. */
export function initProjections(
  prefix: string,
  sizes: {
    /** Pairs of projections: one per class, or one for all classes. */
    readonly pairs: number;
    readonly feature: number;
    readonly hidden: number;
    readonly out: number;
  },
  rng: Rng,
  device: Device,
): Map<string, Tensor> {
  const parameters = new Map<string, Tensor>();
  const initParameter = (name: string, inputSize: number, ...shape: number[]): void => {
    const value = scope(() =>
      noGrad(() => {
        const tensor = zeros([sizes.pairs, ...shape]);
        seedGenerator("cpu", rng.fork(name).seed());
        uniform_(tensor, -1 / Math.sqrt(inputSize), 1 / Math.sqrt(inputSize));
        return tensor.toDevice(device);
      }),
    );
    parameters.set(`${prefix}${name}`, keep(value).requiresGrad_());
  };
  for (const side of ["student", "teacher"]) {
    initParameter(`${side}.dense.weight`, sizes.feature, sizes.hidden, sizes.feature);
    initParameter(`${side}.dense.bias`, sizes.feature, sizes.hidden);
    initParameter(`${side}.out.weight`, sizes.hidden, sizes.out, sizes.hidden);
    initParameter(`${side}.out.bias`, sizes.hidden, sizes.out);
  }
  return parameters;
}

/** Projects features [batch, feature] by class onto the unit sphere: [batch, out]. */
export function project(parameters: Weights, name: string, features: Tensor, classes: Tensor): Tensor {
  const applyLinear = (layer: string, input: Tensor): Tensor =>
    input
      .matmul(getParameter(parameters, `${name}.${layer}.weight`).t())
      .add(getParameter(parameters, `${name}.${layer}.bias`).unsqueeze(1));
  const all = applyLinear("out", applyLinear("dense", features).relu()); // [class, batch, out]
  const [, batchSize, out] = all.shape as [number, number, number];
  const ofClass = all.gather(0, classes.reshape(1, batchSize, 1).expand(1, batchSize, out)).squeeze(0);
  // The same lower bound as in PyTorch's normalize.
  return ofClass.div(ofClass.norm([-1], true).clamp(1e-12));
}
