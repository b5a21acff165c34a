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

export interface ProjectionSizes {
  /** Pairs of projections: one a class, or one for all. */
  readonly pairs: number;
  readonly feature: number;
  readonly hidden: number;
  readonly out: number;
}

/** Which model's features are projected: g1 of the student, g2 of the teacher. */
export type ProjectionSide = "student" | "teacher";

/** The parameters of all projections: those of all classes in one tensor, drawn as PyTorch draws a linear layer. */
export function initProjections(prefix: string, sizes: ProjectionSizes, rng: Rng, device: Device): Map<string, Tensor> {
  const parameters = new Map<string, Tensor>();
  const initParameter = (name: string, inputs: number, ...shape: number[]): void => {
    const value = scope(() =>
      noGrad(() => {
        const tensor = zeros([sizes.pairs, ...shape]);
        seedGenerator("cpu", rng.fork(name).seed());
        uniform_(tensor, -1 / Math.sqrt(inputs), 1 / Math.sqrt(inputs));
        return device === "cpu" ? tensor : tensor.toDevice(device);
      }),
    );
    parameters.set(`${prefix}${name}`, keep(value).requiresGrad_());
  };
  for (const side of ["student", "teacher"] satisfies ProjectionSide[]) {
    initParameter(`${side}.dense.weight`, sizes.feature, sizes.hidden, sizes.feature);
    initParameter(`${side}.dense.bias`, sizes.feature, sizes.hidden);
    initParameter(`${side}.out.weight`, sizes.hidden, sizes.out, sizes.hidden);
    initParameter(`${side}.out.bias`, sizes.hidden, sizes.out);
  }
  return parameters;
}

/** Each feature [batch, feature] through its own class's projection onto the unit sphere: [batch, out]. */
export function project(parameters: Weights, name: string, features: Tensor, classes: Tensor): Tensor {
  const layer = (part: string, input: Tensor): Tensor =>
    input
      .matmul(getParameter(parameters, `${name}.${part}.weight`).t())
      .add(getParameter(parameters, `${name}.${part}.bias`).unsqueeze(1));
  const all = layer("out", layer("dense", features).relu()); // [class, batch, out]
  const [, rows, out] = all.shape as [number, number, number];
  const own = all.gather(0, classes.reshape(1, rows, 1).expand(1, rows, out)).squeeze(0);
  // The same guard as PyTorch's normalize.
  return own.div(own.norm([-1], true).clamp(1e-12));
}
