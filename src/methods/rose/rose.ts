import { z } from "zod";
import { groupBy } from "../../base/group-by.js";
import { orNull } from "../../base/validate.js";
import { getLayerIndex } from "../../models/index.js";
import { computeClipFactor, lerpAll_, symmetricKl } from "../../nn/index.js";
import { noGrad, ones, onesLike, type Tensor } from "../../tensor/index.js";
import {
  type BatchContext,
  countWarmupSteps,
  getModelParameters,
  type NamedTensors,
  type OptimizerStep,
  type ParameterUpdates,
  type TrainingContext,
  type TrainingMethod,
  taskGradientsKey,
} from "../../train/index.js";
import { defineMethod, fractionSchema } from "../define-method.js";
import { computeTwoPassLoss } from "../two-pass-loss.js";
import { computeNorms, computeSecondOrderRisks, computeTensorMask } from "./mask.js";

const optionsSchema = z.strictObject({
  variant: z
    .enum(["first", "second", "ensemble"])
    .default("ensemble")
    .describe("risk by sensitivity to dropout, by deviation from the average gradient, or both"),
  updateRatio: fractionSchema.default(0.6).describe("fraction of tensors to update, those with the lowest risk"),
  firstUpdateRatio: orNull(fractionSchema, "updateRatio").describe("updateRatio of the first-order mask"),
  secondUpdateRatio: orNull(fractionSchema, "updateRatio").describe("updateRatio of the second-order mask"),
  gamma: z.number().min(0).max(1).default(0.5).describe("weight of the first-order mask in the ensemble"),
  thresholdRule: z
    .enum(["rank", "quantile"])
    .default("rank")
    .describe("eq. 3 counts ranks; the released code interpolates a quantile"),
  maskDuringWarmup: z
    .boolean()
    .default(true)
    .describe("false: nothing is frozen while the learning rate rises, as in the released code"),
});

const divergenceKey = "rose.divergence";

function getMaskableParameters(training: TrainingContext): NamedTensors {
  const isMaskable = (name: string): boolean => getLayerIndex(name) !== null && name.endsWith(".weight");
  return new Map([...getModelParameters(training)].filter(([name]) => isMaskable(name)));
}

interface MaskedParameter {
  readonly name: string;
  readonly gradient: Tensor;
  readonly moment: Tensor;
}

/** Eq. 1 with the scale of the released code, which does not change ranks. */
function computeDivergence(context: BatchContext, usesTwoPasses: boolean): Tensor {
  const [clean, again] = usesTwoPasses
    ? context.passTwice("clean", "again")
    : [context.pass("clean"), context.pass("again")];
  return symmetricKl(clean.logits, again.logits).mul(context.batch.batchSize / 4);
}

function listMaskedParameters(step: OptimizerStep, updates: ParameterUpdates): MaskedParameter[] {
  return [...getMaskableParameters(step.training).keys()].map((name) => ({
    name,
    gradient: updates.get(name)!.gradient,
    moment: step.optimizer.firstMoment(name),
  }));
}

/** ||g|| of eq. 4: the norms of the task loss's gradients, scaled like the clipped total. */
function computeTaskNorms(step: OptimizerStep, parameters: readonly MaskedParameter[]): Tensor {
  const decoupled = step.auxiliaryGradients.get(taskGradientsKey);
  if (!decoupled) return computeNorms(parameters.map(({ gradient }) => gradient));
  const norms = computeNorms([...decoupled.values()]);
  const { maxGradNorm } = step.training.job.settings;
  return maxGradNorm === null ? norms : norms.mul(computeClipFactor(step.gradientNorm, maxGradNorm));
}

/** Algorithm 1, lines 5 to 7. */
function computeStepMask(
  step: OptimizerStep,
  parameters: readonly MaskedParameter[],
  options: z.output<typeof optionsSchema>,
): Tensor {
  const { variant, gamma, updateRatio, firstUpdateRatio, secondUpdateRatio, thresholdRule } = options;
  const computeFirst = (): Tensor => {
    const risks = computeNorms([...(step.auxiliaryGradients.get(divergenceKey)?.values() ?? [])]);
    return computeTensorMask(risks, firstUpdateRatio ?? updateRatio, thresholdRule);
  };
  const computeSecond = (): Tensor => {
    const risks = computeSecondOrderRisks(
      computeTaskNorms(step, parameters),
      computeNorms(parameters.map(({ moment }) => moment)),
      1 - step.optimizer.settings.beta1,
    );
    // Before the first step there is no average, so nothing is frozen.
    if (step.stepIndex === 0) return onesLike(risks);
    return computeTensorMask(risks, secondUpdateRatio ?? updateRatio, thresholdRule);
  };
  if (variant === "first") return computeFirst();
  if (variant === "second") return computeSecond();
  return computeFirst()
    .mul(gamma)
    .add(computeSecond().mul(1 - gamma)); // eq. 5
}

/** Line 8: g' = M g + (1 - M) m, exact at 0 and 1. The optimizer does lines 9 to 13. */
function applyMask(updates: ParameterUpdates, parameters: readonly MaskedParameter[], mask: Tensor): void {
  const frozen = mask.neg().add(1);
  lerpAll_(
    parameters.map(({ gradient }) => gradient),
    parameters.map(({ moment }) => moment),
    parameters.map((_, i) => frozen.select(0, i)),
  );
  for (const [i, { name, gradient }] of parameters.entries()) updates.set(name, { gradient, mask: mask.select(0, i) });
}

function logUpdateRatios(step: OptimizerStep, mask: Tensor, parameters: readonly MaskedParameter[]): void {
  step.log("rose.updateRatio", mask.mean());
  const layers = groupBy([...parameters.keys()], (i) => getLayerIndex(parameters[i]!.name));
  for (const [layer, indices] of layers)
    step.log(`rose.updateRatio.${layer}`, mask.narrow(0, indices[0]!, indices.length).mean());
}

/** Algorithm 1 on any base. Second-order risks use the task loss alone (section 3.5). */
function createRose(options: z.output<typeof optionsSchema>): TrainingMethod {
  const usesFirstOrder = options.variant !== "second";
  const usesSecondOrder = options.variant !== "first";
  let numUnmaskedSteps = 0;
  const isMasked = (stepIndex: number): boolean => stepIndex >= numUnmaskedSteps;

  /** Without an inner method that has losses, ROSE uses the mean cross-entropy of two passes. */
  const shouldProvideTaskLoss = ({ job: { methods } }: TrainingContext): boolean =>
    usesFirstOrder && methods.slice(0, methods.indexOf(method)).every((inner) => !inner.losses && !inner.gradients);

  const method: TrainingMethod = {
    name: "rose",
    traits: {
      exclusiveRoles: { selection: "decides which parameters are updated" },
      needsTaskGradients: ({ training, stepIndex }) =>
        usesSecondOrder && isMasked(stepIndex) ? getMaskableParameters(training) : null,
      graphKey: (stepIndex) => (isMasked(stepIndex) ? (stepIndex === 0 ? "first" : "") : "unmasked"),
    },
    async prepare({ totalSteps, job }) {
      if (!options.maskDuringWarmup) numUnmaskedSteps = countWarmupSteps(job.settings, totalSteps);
    },
    transformUpdates(step, next) {
      const updates = next();
      const parameters = listMaskedParameters(step, updates);
      if (!isMasked(step.stepIndex)) {
        const { device } = step.training.job.deviceConfig;
        logUpdateRatios(step, ones([parameters.length], { device }), parameters);
        return updates;
      }
      const mask = computeStepMask(step, parameters, options);
      applyMask(updates, parameters, mask);
      logUpdateRatios(step, mask, parameters);
      return updates;
    },
  };
  if (!usesFirstOrder) return method;
  return Object.assign(method, {
    losses(context, next) {
      if (!shouldProvideTaskLoss(context.training)) return next();
      const task = computeTwoPassLoss(context);
      return new Map(next()).set("task", task);
    },
    gradients(context, next) {
      if (!isMasked(context.stepIndex)) return next();
      // If the base runs one pass, that pass keeps its dropout masks.
      const { training } = context;
      const usesTwoPasses =
        shouldProvideTaskLoss(training) || training.job.methods.some(({ traits }) => traits?.usesTwoPasses);
      const loss = computeDivergence(context, usesTwoPasses);
      // The divergence comes first and retains the graph for the total loss of the base.
      const parameters = getMaskableParameters(training);
      const divergenceGradients = context.computeGradients(loss, parameters, true);
      const gradients = next();
      context.log(
        divergenceKey,
        noGrad(() => loss.detach()),
      );
      return { ...gradients, auxiliary: new Map([...gradients.auxiliary, [divergenceKey, divergenceGradients]]) };
    },
  } satisfies Partial<TrainingMethod>);
}

export const rose = defineMethod({
  name: "rose",
  summary: "updates only parameters with low risk: stable under dropout (first), stable gradients (second), or both",
  paper: "Jiang et al. 2022, ROSE: Robust Selective Fine-tuning for Pre-trained Language Models",
  cost: { gpu: "1.3 (second), 2.7 (first), 2.8 (ensemble)", cpu: "1.1 (second), 3.0 (first, ensemble)" },
  options: optionsSchema,
  create: createRose,
});
