import { z } from "zod";
import { orNull } from "../../base/validate.js";
import { getEncoderPart, getLayerIndex } from "../../models/index.js";
import { computeClipFactor, lerpAll_, type ParameterUpdate, schedules, symmetricKl } from "../../nn/index.js";
import { keep, noGrad, ones, onesLike, type Tensor, zeros } from "../../tensor/index.js";
import {
  type BatchContext,
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
import { computeAutoGamma, computeElementMask, computeSeparation, computeTensorMask } from "./mask.js";
import { computeSecondOrderRisks, granularities } from "./risk.js";

const updateRatioSchema = z.union([fractionSchema, z.literal("auto")], {
  error: 'expected a fraction in (0, 1], such as 0.6, or "auto"',
});

const optionsSchema = z
  .strictObject({
    variant: z
      .enum(["first", "second", "ensemble"])
      .default("ensemble")
      .describe("risk by sensitivity to dropout, by deviation from the average gradient, or both"),
    updateRatio: updateRatioSchema
      .default(0.6)
      .describe("fraction of tensors to update, those with the lowest risk; auto: derived from the risks"),
    firstUpdateRatio: orNull(updateRatioSchema, "updateRatio").describe("updateRatio of the first-order mask"),
    secondUpdateRatio: orNull(updateRatioSchema, "updateRatio").describe("updateRatio of the second-order mask"),
    gamma: z
      .union([z.number().min(0).max(1), z.literal("auto")], { error: 'expected a number in [0, 1] or "auto"' })
      .default(0.5)
      .describe("weight of the first-order mask in the ensemble; auto: derived from the risks"),
    thresholdRule: z
      .enum(["rank", "quantile"])
      .default("rank")
      .describe("eq. 3 counts ranks; the released code interpolates a quantile"),
    granularity: z.enum(["tensor", "element"]).default("tensor").describe("unit that is updated or frozen"),
    maskedParameters: z
      .enum(["layer-weights", "all"])
      .default("layer-weights")
      .describe("only weights of the layers can be frozen, or every parameter"),
    maskDuringWarmup: z
      .boolean()
      .default(true)
      .describe("false: nothing is frozen while the learning rate rises, as in the released code"),
    maskInterval: z.number().int().positive().default(1).describe("steps per mask; more than 1 is not in the paper"),
  })
  .refine(
    ({ granularity, ...ratios }) =>
      granularity === "tensor" ||
      ![ratios.updateRatio, ratios.firstUpdateRatio, ratios.secondUpdateRatio].includes("auto"),
    {
      path: ["updateRatio"],
      error: 'expected a fraction: "auto" compares tensors, so it needs granularity: tensor',
    },
  );

type RoseOptions = z.output<typeof optionsSchema>;

/** The name of the divergence's gradients, which `gradients` passes on to `transformUpdates`. */
const divergenceKey = "rose.divergence";

/** The parameters that can be frozen, in the order of the model. */
function getMaskableParameters(training: TrainingContext, which: RoseOptions["maskedParameters"]): NamedTensors {
  const isLayerWeight = (name: string): boolean => getLayerIndex(name) !== null && name.endsWith(".weight");
  return new Map([...getModelParameters(training)].filter(([name]) => which === "all" || isLayerWeight(name)));
}

/** The layer number of a parameter, "embeddings" or "head". */
function getLayerLabel(name: string): string {
  const layer = getLayerIndex(name);
  return layer === null ? (getEncoderPart(name) ?? "head") : String(layer);
}

/** A maskable parameter with its entries in the vector of risks. */
interface MaskedParameter {
  readonly name: string;
  readonly start: number;
  readonly count: number;
  readonly gradient: Tensor;
  readonly moment: Tensor;
}

/** Eq. 1 with the scale of the released code, which does not change ranks. */
function computeDivergence(context: BatchContext, usesTwoPasses: boolean): Tensor {
  const [clean, again] = usesTwoPasses
    ? context.passTwice("clean", "again")
    : [context.pass("clean"), context.pass("again")];
  return symmetricKl(clean.logits, again.logits).mul(context.batch.fullBatchSize / 4);
}

function listMaskedParameters(step: OptimizerStep, updates: ParameterUpdates, options: RoseOptions): MaskedParameter[] {
  let end = 0;
  return [...getMaskableParameters(step.training, options.maskedParameters)].map(([name, tensor]) => {
    const start = end;
    const count = granularities[options.granularity].countEntries(tensor);
    end += count;
    const { gradient } = updates.get(name) as ParameterUpdate;
    return { name, start, count, gradient, moment: step.optimizer.firstMoment(name) };
  });
}

function computeMask(risks: Tensor, ratio: RoseOptions["updateRatio"] | null, options: RoseOptions): Tensor {
  const updateRatio = ratio ?? options.updateRatio;
  return options.granularity === "tensor" || updateRatio === "auto"
    ? computeTensorMask(risks, updateRatio, options.thresholdRule)
    : computeElementMask(risks, updateRatio, options.thresholdRule);
}

/** ||g|| of eq. 4: the norms of the task loss's gradients, scaled like the clipped total. */
function computeTaskNorms(step: OptimizerStep, parameters: readonly MaskedParameter[], options: RoseOptions): Tensor {
  const granularity = granularities[options.granularity];
  const decoupled = step.auxiliaryGradients.get(taskGradientsKey);
  if (!decoupled) return granularity.computeNorms(parameters.map(({ gradient }) => gradient));
  const norms = granularity.computeNorms([...decoupled.values()]);
  const { maxGradNorm } = step.training.job.settings;
  return maxGradNorm === null ? norms : norms.mul(computeClipFactor(step.gradientNorm, maxGradNorm));
}

/** Algorithm 1, lines 5 to 7. */
function computeStepMask(step: OptimizerStep, parameters: readonly MaskedParameter[], options: RoseOptions): Tensor {
  const granularity = granularities[options.granularity];
  const computeFirst = (): [Tensor, Tensor] => {
    const risks = granularity.computeNorms([...(step.auxiliaryGradients.get(divergenceKey)?.values() ?? [])]);
    return [risks, computeMask(risks, options.firstUpdateRatio, options)];
  };
  const computeSecond = (): [Tensor, Tensor] => {
    const risks = computeSecondOrderRisks(
      computeTaskNorms(step, parameters, options),
      granularity.computeNorms(parameters.map(({ moment }) => moment)),
      1 - step.optimizer.settings.beta1,
    );
    // Before the first step there is no average, so nothing is frozen.
    return [risks, step.stepIndex === 0 ? onesLike(risks) : computeMask(risks, options.secondUpdateRatio, options)];
  };
  if (options.variant === "first") return computeFirst()[1];
  if (options.variant === "second") return computeSecond()[1];
  const [firstRisks, firstMask] = computeFirst();
  const [secondRisks, secondMask] = computeSecond();
  if (options.gamma !== "auto") return firstMask.mul(options.gamma).add(secondMask.mul(1 - options.gamma)); // eq. 5
  const gamma = computeAutoGamma(computeSeparation(firstRisks, firstMask), computeSeparation(secondRisks, secondMask));
  step.log("rose.gamma", gamma);
  return firstMask.mul(gamma).add(secondMask.mul(gamma.neg().add(1)));
}

/** Line 8: g' = M g + (1 - M) m, exact at 0 and 1. The optimizer does lines 9 to 13. */
function applyMask(
  updates: ParameterUpdates,
  parameters: readonly MaskedParameter[],
  mask: Tensor,
  options: RoseOptions,
): void {
  const { sliceMask } = granularities[options.granularity];
  const frozen = mask.neg().add(1);
  lerpAll_(
    parameters.map(({ gradient }) => gradient),
    parameters.map(({ moment }) => moment),
    parameters.map(({ start, moment }) => sliceMask(frozen, start, moment)),
  );
  for (const { name, start, gradient, moment } of parameters)
    updates.set(name, { gradient, mask: sliceMask(mask, start, moment) });
}

/** Logs the updated fraction, in total and per layer. */
function logUpdateRatios(step: OptimizerStep, mask: Tensor, parameters: readonly MaskedParameter[]): void {
  step.log("rose.updateRatio", mask.mean());
  const layers = new Map<string, { start: number; end: number }>();
  for (const { name, start, count } of parameters) {
    const label = getLayerLabel(name);
    layers.set(label, { start: layers.get(label)?.start ?? start, end: start + count });
  }
  for (const [label, { start, end }] of layers)
    step.log(`rose.updateRatio.${label}`, mask.narrow(0, start, end - start).mean());
}

/** Algorithm 1 on any base. Second-order risks use the task loss alone (section 3.5). */
function createRose(options: RoseOptions): TrainingMethod {
  const granularity = granularities[options.granularity];
  const usesFirstOrder = options.variant !== "second";
  const usesSecondOrder = options.variant !== "first";
  /** Steps without masks, before all others. */
  let numUnmaskedSteps = 0;
  const isMasked = (stepIndex: number): boolean => stepIndex >= numUnmaskedSteps;
  const shouldRefreshMask = (stepIndex: number): boolean =>
    isMasked(stepIndex) && (stepIndex - numUnmaskedSteps) % options.maskInterval === 0;
  let heldMask: Tensor | null = null;

  /** Without an inner method that has losses, ROSE uses the mean cross-entropy of two passes. */
  const shouldProvideTaskLoss = ({ job: { methods } }: TrainingContext): boolean =>
    usesFirstOrder && methods.slice(0, methods.indexOf(method)).every((inner) => !inner.losses && !inner.gradients);

  const method: TrainingMethod = {
    name: "rose",
    traits: {
      exclusiveRoles: { selection: "decides which parameters are updated" },
      needsTaskGradients: ({ training, stepIndex }) =>
        usesSecondOrder && shouldRefreshMask(stepIndex)
          ? getMaskableParameters(training, options.maskedParameters)
          : null,
      graphKey(stepIndex) {
        if (!isMasked(stepIndex)) return "unmasked";
        return `${stepIndex === 0 ? "first " : ""}${shouldRefreshMask(stepIndex) ? "refresh" : "hold"}`;
      },
    },
    async prepare(training) {
      const { totalSteps, job } = training;
      if (!options.maskDuringWarmup)
        numUnmaskedSteps = schedules.countWarmupSteps(job.settings.warmupRatio, totalSteps);
      if (options.maskInterval === 1) return;
      const parameters = getMaskableParameters(training, options.maskedParameters);
      const size = [...parameters.values()].reduce((sum, tensor) => sum + granularity.countEntries(tensor), 0);
      heldMask = keep(zeros([size], { device: training.job.deviceConfig.device }));
    },
    state: () => ({ buffers: new Map(heldMask ? [["rose.mask", heldMask]] : []) }),
    transformUpdates(step, next) {
      const updates = next();
      const parameters = listMaskedParameters(step, updates, options);
      if (!isMasked(step.stepIndex)) {
        const size = parameters.reduce((sum, { count }) => sum + count, 0);
        logUpdateRatios(step, ones([size], { device: step.training.job.deviceConfig.device }), parameters);
        return updates;
      }
      const newMask = shouldRefreshMask(step.stepIndex) ? computeStepMask(step, parameters, options) : null;
      if (newMask) heldMask?.copy_(newMask);
      const mask = newMask ?? (heldMask as Tensor);
      applyMask(updates, parameters, mask, options);
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
      if (!shouldRefreshMask(context.stepIndex)) return next();
      // If the base runs one pass, that pass keeps its dropout masks.
      const { training } = context;
      const usesTwoPasses =
        shouldProvideTaskLoss(training) || training.job.methods.some(({ traits }) => traits?.usesTwoPasses);
      const loss = computeDivergence(context, usesTwoPasses);
      // The divergence comes first and retains the graph for the total loss of the base.
      const parameters = getMaskableParameters(context.training, options.maskedParameters);
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
