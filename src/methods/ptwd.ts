import { z } from "zod";
import { flattenTensors, groupForDevice } from "../nn/index.js";
import { mseLoss, scope, type Tensor } from "../tensor/index.js";
import type { NamedTensors } from "../train/index.js";
import { defineMethod } from "./define-method.js";
import { getPretrainedParameterNames } from "./pretrained.js";

/** Under the root, so that its slope at the start is finite. */
const epsilon = 1e-10;

/** Pre-trained weight decay: the distance to the pre-trained encoder as a loss. */
export const ptwd = defineMethod({
  name: "ptwd",
  summary: "pre-trained weight decay: a penalty on the distance to the pre-trained weights",
  paper: "Chelba and Acero, 2004; RIFT section 3.2 (iii)",
  options: z.strictObject({
    lambda: z
      .number()
      .nonnegative()
      .default(0.01)
      .describe("weight of the distance; the paper: 0.01 on IMDB, 0.005 on SNLI"),
  }),
  create: ({ lambda }) => {
    let names: readonly string[] = [];
    let before: NamedTensors = new Map();
    return {
      name: "ptwd",
      async prepare(run) {
        names = getPretrainedParameterNames(run.model);
        before = run.getPretrainedWeights();
      },
      losses(step, next) {
        const pairs = names.map((name): [Tensor, Tensor] => [
          step.run.parameters.get(name) as Tensor,
          before.get(name) as Tensor,
        ]);
        return new Map(next()).set("distance", computeWeightDistance(pairs, step.run.device).mul(lambda));
      },
    };
  },
});

/** sqrt(1e-10 + sum (theta - theta0)^2): the norm, not its square. */
export function computeWeightDistance(pairs: readonly (readonly [Tensor, Tensor])[], device: string): Tensor {
  // The squared error keeps nothing but the two sides for its gradient; its own result lies in memory as large as they are, and must go.
  return scope(() => {
    const squares = groupForDevice(device, pairs).map((group) =>
      scope(() =>
        mseLoss(flattenTensors(group.map(([now]) => now)), flattenTensors(group.map(([, before]) => before)), 2),
      ),
    );
    return squares
      .reduce((sum, square) => sum.add(square))
      .add(epsilon)
      .sqrt();
  });
}
