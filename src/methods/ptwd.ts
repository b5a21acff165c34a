import { z } from "zod";
import { groupsFor, together } from "../nn/index.js";
import { mseLoss, scope, type Tensor } from "../tensor/index.js";
import type { Named } from "../train/index.js";
import { defineMethod } from "./method.js";
import { encoderNames } from "./pretrained.js";

/** Under the root, so that its slope at the start is finite. */
const floor = 1e-10;

/** Pre-trained weight decay: the distance to the pre-trained encoder as a loss. */
export const ptwd = defineMethod({
  name: "ptwd",
  summary: "pre-trained weight decay: a penalty on the distance to the pre-trained weights",
  paper: "Chelba and Acero, 2004; RIFT section 3.2 (iii)",
  options: z.strictObject({
    lambda: z.number().nonnegative().default(0.01).describe("weight of the distance; the paper: 0.01 on IMDB, 0.005 on SNLI"),
  }),
  create: ({ lambda }) => {
    let names: readonly string[] = [];
    let before: Named = new Map();
    return {
      name: "ptwd",
      async prepare(run) {
        names = encoderNames(run.model);
        before = run.pretrained();
      },
      losses(step, next) {
        const pairs = names.map((name): [Tensor, Tensor] => [step.run.parameters.get(name) as Tensor, before.get(name) as Tensor]);
        return new Map(next()).set("distance", distance(pairs, step.run.device).mul(lambda));
      },
    };
  },
});

/** sqrt(1e-10 + sum (theta - theta0)^2): the norm, not its square. */
export function distance(pairs: readonly (readonly [Tensor, Tensor])[], device: string): Tensor {
  // The squared error keeps nothing but the two sides for its gradient; its own result lies in memory as large as they are, and must go.
  return scope(() => {
    const squares = groupsFor(device, pairs).map((group) =>
      scope(() => mseLoss(together(group.map(([now]) => now)), together(group.map(([, before]) => before)), 2)),
    );
    return squares
      .reduce((sum, square) => sum.add(square))
      .add(floor)
      .sqrt();
  });
}
