import { z } from "zod";
import { type ParameterUpdate, symmetricKl } from "../../nn/index.js";
import { keep as keepTensor, noGrad, ones, runOnParallelStreams, type Tensor, zeros } from "../../tensor/index.js";
import {
  type BatchContext,
  gradientsOf,
  type NamedTensors,
  type OptimizerStep,
  type TrainingContext,
  type TrainingMethod,
} from "../../train/index.js";
import { defineMethod } from "../define-method.js";
import { fractionSchema } from "../options.js";
import { computeTwoPassLoss } from "../two-pass-loss.js";
import { computeAutoGamma, computeElementMask, computeSeparation, computeTensorMask } from "./mask.js";
import { computeSecondOrderRisks, granularities } from "./risk.js";

const updateRatioSchema = z.union([fractionSchema, z.literal("auto")], {
  error: 'expected a share in (0, 1], such as 0.6, or "auto"',
});

const options = z
  .strictObject({
    variant: z
      .enum(["first", "second", "ensemble"])
      .default("ensemble")
      .describe("risk by sensitivity to dropout, by aggressive updates, or both"),
    updateRatio: updateRatioSchema
      .default(0.6)
      .describe("share of the tensors, those of least risk, that an update changes; auto: from the risks themselves"),
    firstUpdateRatio: updateRatioSchema
      .nullable()
      .default(null)
      .describe("the same for the first-order mask alone; null: keep"),
    secondUpdateRatio: updateRatioSchema
      .nullable()
      .default(null)
      .describe("the same for the second-order mask alone; null: keep"),
    gamma: z
      .union([z.number().min(0).max(1), z.literal("auto")], { error: 'expected a number in [0, 1] or "auto"' })
      .default(0.5)
      .describe("weight of the first-order mask in the ensemble; auto: from the risks themselves"),
    thresholdRule: z
      .enum(["rank", "quantile"])
      .default("rank")
      .describe("eq. 3 counts ranks, the released code interpolates a quantile"),
    granularity: z.enum(["tensor", "element"]).default("tensor").describe("what is kept or frozen as one"),
    maskedParameters: z
      .enum(["layer-weights", "all"])
      .default("layer-weights")
      .describe("weights inside the layers (the rest always trains), or everything"),
    maskInterval: z
      .number()
      .int()
      .positive()
      .default(1)
      .describe("updates that one mask serves; more than 1 is beyond the paper"),
  })
  .refine(
    ({ granularity, ...ratios }) =>
      granularity === "tensor" ||
      ![ratios.updateRatio, ratios.firstUpdateRatio, ratios.secondUpdateRatio].includes("auto"),
    {
      path: ["keep"],
      error: 'expected a share: "auto" compares whole tensors, so it needs granularity: tensor',
    },
  );

type Options = z.output<typeof options>;

/** The name under which the gradients of the divergence travel from `gradients` to `select`. */
const divergenceKey = "rose.divergence";

/** The tensors that may be frozen, in the model's order. */
function getMaskableParameters(run: TrainingContext, which: Options["maskedParameters"]): NamedTensors {
  const inLayer = (name: string): boolean => /\.layer\.\d+\..*\.weight$/.test(name);
  return new Map([...run.model.weights].filter(([name]) => which === "all" || inLayer(name)));
}

/** Where a tensor stands, for the record of what was frozen: its layer's number, or what it belongs to. */
function getLayerLabel(name: string): string {
  return /\.layer\.(\d+)\./.exec(name)?.[1] ?? (name.includes(".embeddings.") ? "embeddings" : "head");
}

/** ROSE: Algorithm 1 over any base; g is the gradient of the base's total. */
function createRose(chosen: Options): TrainingMethod {
  const granularity = granularities[chosen.granularity];
  const usesFirst = chosen.variant !== "second";
  const shouldRefreshMask = (update: number): boolean => update % chosen.maskInterval === 0;
  let held: Tensor | null = null;

  /** Whether no method beneath has losses of its own: ROSE then brings the mean cross-entropy of two passes. */
  const shouldProvideTaskLoss = (run: TrainingContext): boolean =>
    usesFirst &&
    run.methods.slice(0, run.methods.indexOf(layer)).every((beneath) => !beneath.losses && !beneath.gradients);

  /** Eq. 1 with the released code's scale, which no rank depends on. A base of one pass keeps that pass's dropout as it is. */
  const computeDivergence = (step: BatchContext): Tensor => {
    const twice = shouldProvideTaskLoss(step.run) || step.run.methods.some((other) => other.usesTwoPasses);
    const [clean, again] = twice ? step.passTwice("clean", "again") : [step.pass("clean"), step.pass("again")];
    return symmetricKl(clean.logits, again.logits).mul(step.run.settings.batchSize / 4);
  };

  const computeMask = (risks: Tensor, part: Options["updateRatio"] | null): Tensor => {
    const wanted = part ?? chosen.updateRatio;
    return chosen.granularity === "tensor" || wanted === "auto"
      ? computeTensorMask(risks, wanted, chosen.thresholdRule)
      : computeElementMask(risks, wanted, chosen.thresholdRule);
  };

  /** Algorithm 1, lines 5 to 7. */
  const calculateMask = (update: OptimizerStep, gradients: readonly Tensor[], moments: readonly Tensor[]): Tensor => {
    const first = (): [Tensor, Tensor] => {
      const risks = granularity.computeNorms([...(update.auxiliaryGradients.get(divergenceKey)?.values() ?? [])]);
      return [risks, computeMask(risks, chosen.firstUpdateRatio)];
    };
    const second = (): [Tensor, Tensor] => {
      const risks = computeSecondOrderRisks(
        granularity.computeNorms(gradients),
        granularity.computeNorms(moments),
        1 - update.optimizer.settings.beta1,
      );
      // Before the first update there is no average to step out of, and nothing is frozen.
      return [
        risks,
        update.stepIndex === 0
          ? ones(risks.shape, { device: risks.device })
          : computeMask(risks, chosen.secondUpdateRatio),
      ];
    };
    if (chosen.variant === "first") return first()[1];
    if (chosen.variant === "second") return second()[1];
    const [firstRisks, firstMask] = first();
    const [secondRisks, secondMask] = second();
    if (chosen.gamma !== "auto") return firstMask.mul(chosen.gamma).add(secondMask.mul(1 - chosen.gamma)); // eq. 5
    const gamma = computeAutoGamma(
      computeSeparation(firstRisks, firstMask),
      computeSeparation(secondRisks, secondMask),
    );
    update.log("rose.gamma", gamma);
    return firstMask.mul(gamma).add(secondMask.mul(gamma.neg().add(1)));
  };

  /** The kept share, in all and of every layer. */
  const logUpdateRatios = (
    update: OptimizerStep,
    mask: Tensor,
    parts: readonly { name: string; start: number; entries: number }[],
  ): void => {
    update.log("rose.kept", mask.mean());
    const places = new Map<string, { start: number; end: number }>();
    for (const { name, start, entries } of parts) {
      const place = getLayerLabel(name);
      places.set(place, { start: places.get(place)?.start ?? start, end: start + entries });
    }
    for (const [place, { start, end }] of places)
      update.log(`rose.kept.${place}`, mask.narrow(0, start, end - start).mean());
  };

  const layer: TrainingMethod = {
    name: "rose",
    exclusiveRoles: { selection: "decides which parameters an update changes" },
    graphKey: (update) => `${update === 0 ? "first " : ""}${shouldRefreshMask(update) ? "refresh" : "hold"}`,
    async prepare(run) {
      if (chosen.maskInterval === 1) return;
      const entries = [...getMaskableParameters(run, chosen.maskedParameters).values()].reduce(
        (sum, tensor) => sum + granularity.countEntries(tensor),
        0,
      );
      held = keepTensor(zeros([entries], { device: run.device }));
    },
    state: () => ({ buffers: new Map(held ? [["rose.mask", held]] : []) }),
    transformUpdates(update, next) {
      const selected = next();
      let size = 0;
      const parts = [...getMaskableParameters(update.run, chosen.maskedParameters)].map(([name, tensor]) => {
        const start = size;
        const entries = granularity.countEntries(tensor);
        size += entries;
        return {
          name,
          start,
          entries,
          change: selected.get(name) as ParameterUpdate,
          moment: update.optimizer.firstMoment(name),
        };
      });
      const gradients = parts.map((part) => part.change.gradient);
      const fresh = shouldRefreshMask(update.stepIndex)
        ? calculateMask(
            update,
            gradients,
            parts.map((part) => part.moment),
          )
        : null;
      if (fresh) held?.copy_(fresh);
      const mask = fresh ?? (held as Tensor);
      const frozen = mask.neg().add(1);
      // Line 8: g' = M g + (1 - M) m, exact at 0 and 1. Lines 9 to 13 are the optimiser's, with M as the gate.
      runOnParallelStreams(
        mask.device,
        parts.map(({ start, change, moment }) => {
          const weight = granularity.sliceMask(frozen, start, moment);
          return () => void change.gradient.lerp_(moment, weight);
        }),
      );
      for (const { name, start, change, moment } of parts)
        selected.set(name, { gradient: change.gradient, mask: granularity.sliceMask(mask, start, moment) });
      logUpdateRatios(update, mask, parts);
      return selected;
    },
  };
  if (!usesFirst) return layer;
  return Object.assign(layer, {
    losses(step, next) {
      if (!shouldProvideTaskLoss(step.run)) return next();
      const task = computeTwoPassLoss(step);
      return new Map(next()).set("task", task);
    },
    gradients(step, next) {
      if (!shouldRefreshMask(Math.floor(step.batchIndex / step.run.settings.gradientAccumulationSteps))) return next();
      const loss = computeDivergence(step);
      // The divergence first, over a graph that the base's total still needs; its gradients end with the masks.
      const risky = gradientsOf(loss, getMaskableParameters(step.run, chosen.maskedParameters), true);
      const gradients = next();
      step.log(
        divergenceKey,
        noGrad(() => loss.detach()),
      );
      return { ...gradients, auxiliary: new Map([...gradients.auxiliary, [divergenceKey, risky]]) };
    },
  } satisfies Partial<TrainingMethod>);
}

export const rose = defineMethod({
  name: "rose",
  summary:
    "updates only the parameters of low risk, by sensitivity to dropout (first), by steps out of their average (second), or both",
  paper: "Jiang et al. 2022, ROSE: Robust Selective Fine-tuning for Pre-trained Language Models",
  options,
  create: createRose,
});
