import { z } from "zod";
import { globalNorm } from "../nn/index.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";
import type { BatchContext, NamedTensors, TrainingMethod } from "../train/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";

const optionsSchema = z.strictObject({
  rho: nonnegativeSchema.default(0.05).describe("radius of the ascent; 0: standard. ASAM uses about ten times as much"),
  adaptive: z
    .boolean()
    .default(false)
    .describe("true: ASAM, which scales the ascent of each element by its absolute value"),
  eta: nonnegativeSchema.default(0.01).describe("added to the absolute values of ASAM"),
});

type SamOptions = z.output<typeof optionsSchema>;

/** Avoids a division by zero if the gradient vanishes. */
const epsilon = 1e-12;

/** SAM, eq. 2: rho g / ||g||. ASAM, eq. 4: rho T^2 g / ||T g|| with T = |theta| + eta. */
export function computeAscent(
  parameters: readonly Tensor[],
  gradients: readonly Tensor[],
  { rho, adaptive, eta }: SamOptions,
): Tensor[] {
  const scales = adaptive ? parameters.map((parameter) => parameter.detach().abs().add(eta)) : null;
  const scaled = scales ? gradients.map((gradient, i) => gradient.mul(scales[i]!)) : gradients;
  const factor = globalNorm(scaled).add(epsilon).reciprocal().mul(rho);
  return scaled.map((gradient, i) => (scales ? gradient.mul(scales[i]!) : gradient).mul(factor));
}

function createSam(options: SamOptions): TrainingMethod {
  const ascend = ({ training }: BatchContext, gradients: NamedTensors): Tensor[] => {
    const parameters = [...training.parameters.values()];
    const ordered = [...training.parameters.keys()].map((name) => gradients.get(name) as Tensor);
    const before = parameters.map((parameter) => parameter.detach().clone());
    scope(() => {
      const ascent = computeAscent(parameters, ordered, options);
      training.overwriteParameters(before.map((value, i) => value.add(ascent[i]!)));
    });
    return before;
  };

  return {
    name: "sam",
    traits: {
      requiresFullBatch: "the ascent follows the gradient of the complete batch",
    },
    gradients(context, next) {
      const first = next();
      if (options.rho === 0) return first;
      const before = noGrad(() => ascend(context, first.total));
      // The passes run again with the same dropout masks, at the perturbed parameters.
      const second = next(context.withInput(({ batch }) => batch.input));
      context.training.overwriteParameters(before);
      // The logged losses are those of the parameters themselves.
      return { ...second, losses: first.losses };
    },
  };
}

export const sam = defineMethod({
  name: "sam",
  summary: "uses the gradient at the worst parameters nearby, so that the minimum is flat (SAM, ASAM)",
  paper: "Foret et al. 2021, Sharpness-Aware Minimization; Kwon et al. 2021, ASAM",
  cost: { gpu: "2.6 (sam), 3.0 (adaptive)", cpu: "2.6 (sam), 3.2 (adaptive)" },
  options: optionsSchema,
  create: createSam,
});
