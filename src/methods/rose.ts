import { z } from "zod";
import { type Change, symmetricDivergence } from "../nn/index.js";
import { keep as keepTensor, noGrad, ones, sideBySide, type Tensor, zeros } from "../tensor/index.js";
import { gradientsOf, type Layer, type Named, type Run, type Step, type Update } from "../train/index.js";
import { defineMethod } from "./method.js";
import { share } from "./options.js";
import { elementMask, naturalGamma, separation, tensorMask } from "./rose-mask.js";
import { granularities, secondOrderRisks } from "./rose-risk.js";
import { twoPassTask } from "./two-pass.js";

const keep = z.union([share, z.literal("auto")], { error: 'expected a share in (0, 1], such as 0.6, or "auto"' });

const options = z
  .strictObject({
    order: z
      .enum(["first", "second", "ensemble"])
      .default("ensemble")
      .describe("risk by sensitivity to dropout, by aggressive updates, or both"),
    keep: keep.default(0.6).describe("share of the tensors, those of least risk, that an update changes; auto: from the risks themselves"),
    keepFirst: keep.nullable().default(null).describe("the same for the first-order mask alone; null: keep"),
    keepSecond: keep.nullable().default(null).describe("the same for the second-order mask alone; null: keep"),
    gamma: z
      .union([z.number().min(0).max(1), z.literal("auto")], { error: 'expected a number in [0, 1] or "auto"' })
      .default(0.5)
      .describe("weight of the first-order mask in the ensemble; auto: from the risks themselves"),
    threshold: z.enum(["rank", "quantile"]).default("rank").describe("eq. 3 counts ranks, the released code interpolates a quantile"),
    granularity: z.enum(["tensor", "element"]).default("tensor").describe("what is kept or frozen as one"),
    eligible: z.enum(["layers", "all"]).default("layers").describe("weights inside the layers (the rest always trains), or everything"),
    refresh: z.number().int().positive().default(1).describe("updates that one mask serves; more than 1 is beyond the paper"),
  })
  .refine(
    ({ granularity, ...shares }) => granularity === "tensor" || ![shares.keep, shares.keepFirst, shares.keepSecond].includes("auto"),
    {
      path: ["keep"],
      error: 'expected a share: "auto" compares whole tensors, so it needs granularity: tensor',
    },
  );

type Options = z.output<typeof options>;

/** The name under which the gradients of the divergence travel from `gradients` to `select`. */
const divergence = "rose.divergence";

/** The tensors that may be frozen, in the model's order. */
function eligibleOf(run: Run, which: Options["eligible"]): Named {
  const inLayer = (name: string): boolean => /\.layer\.\d+\..*\.weight$/.test(name);
  return new Map([...run.model.weights].filter(([name]) => which === "all" || inLayer(name)));
}

/** Where a tensor stands, for the record of what was frozen: its layer's number, or what it belongs to. */
function placeOf(name: string): string {
  return /\.layer\.(\d+)\./.exec(name)?.[1] ?? (name.includes(".embeddings.") ? "embeddings" : "head");
}

/** ROSE: Algorithm 1 over any base; g is the gradient of the base's total. */
function createRose(chosen: Options): Layer {
  const granularity = granularities[chosen.granularity];
  const usesFirst = chosen.order !== "second";
  const refreshes = (update: number): boolean => update % chosen.refresh === 0;
  let held: Tensor | null = null;

  /** Whether no method beneath has losses of its own: ROSE then brings the mean cross-entropy of two passes. */
  const bringsBase = (run: Run): boolean =>
    usesFirst && run.layers.slice(0, run.layers.indexOf(layer)).every((beneath) => !beneath.losses && !beneath.gradients);

  /** Eq. 1 with the released code's scale, which no rank depends on. A base of one pass keeps that pass's dropout as it is. */
  const divergenceOf = (step: Step): Tensor => {
    const twice = bringsBase(step.run) || step.run.layers.some((other) => other.twice);
    const [clean, again] = twice ? step.pair("clean", "again") : [step.pass("clean"), step.pass("again")];
    return symmetricDivergence(clean.logits, again.logits).mul(step.run.settings.batchSize / 4);
  };

  const maskOf = (risks: Tensor, part: Options["keep"] | null): Tensor => {
    const wanted = part ?? chosen.keep;
    return chosen.granularity === "tensor" || wanted === "auto"
      ? tensorMask(risks, wanted, chosen.threshold)
      : elementMask(risks, wanted, chosen.threshold);
  };

  /** Algorithm 1, lines 5 to 7. */
  const calculateMask = (update: Update, gradients: readonly Tensor[], moments: readonly Tensor[]): Tensor => {
    const first = (): [Tensor, Tensor] => {
      const risks = granularity.norms([...(update.others.get(divergence)?.values() ?? [])]);
      return [risks, maskOf(risks, chosen.keepFirst)];
    };
    const second = (): [Tensor, Tensor] => {
      const risks = secondOrderRisks(granularity.norms(gradients), granularity.norms(moments), 1 - update.optimizer.settings.beta1);
      // Before the first update there is no average to step out of, and nothing is frozen.
      return [risks, update.number === 0 ? ones(risks.shape, { device: risks.device }) : maskOf(risks, chosen.keepSecond)];
    };
    if (chosen.order === "first") return first()[1];
    if (chosen.order === "second") return second()[1];
    const [firstRisks, firstMask] = first();
    const [secondRisks, secondMask] = second();
    if (chosen.gamma !== "auto") return firstMask.mul(chosen.gamma).add(secondMask.mul(1 - chosen.gamma)); // eq. 5
    const gamma = naturalGamma(separation(firstRisks, firstMask), separation(secondRisks, secondMask));
    update.log("rose.gamma", gamma);
    return firstMask.mul(gamma).add(secondMask.mul(gamma.neg().add(1)));
  };

  /** The kept share, in all and of every layer. */
  const record = (update: Update, mask: Tensor, parts: readonly { name: string; start: number; entries: number }[]): void => {
    update.log("rose.kept", mask.mean());
    const places = new Map<string, { start: number; end: number }>();
    for (const { name, start, entries } of parts) {
      const place = placeOf(name);
      places.set(place, { start: places.get(place)?.start ?? start, end: start + entries });
    }
    for (const [place, { start, end }] of places) update.log(`rose.kept.${place}`, mask.narrow(0, start, end - start).mean());
  };

  const layer: Layer = {
    name: "rose",
    owns: { selection: "decides which parameters an update changes" },
    phase: (update) => `${update === 0 ? "first " : ""}${refreshes(update) ? "refresh" : "hold"}`,
    async prepare(run) {
      if (chosen.refresh === 1) return;
      const entries = [...eligibleOf(run, chosen.eligible).values()].reduce((sum, tensor) => sum + granularity.entries(tensor), 0);
      held = keepTensor(zeros([entries], { device: run.device }));
    },
    state: () => ({ buffers: new Map(held ? [["rose.mask", held]] : []) }),
    select(update, next) {
      const selected = next();
      let size = 0;
      const parts = [...eligibleOf(update.run, chosen.eligible)].map(([name, tensor]) => {
        const start = size;
        const entries = granularity.entries(tensor);
        size += entries;
        return { name, start, entries, change: selected.get(name) as Change, moment: update.optimizer.firstMoment(name) };
      });
      const gradients = parts.map((part) => part.change.gradient);
      const fresh = refreshes(update.number)
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
      sideBySide(
        mask.device,
        parts.map(({ start, change, moment }) => {
          const weight = granularity.gate(frozen, start, moment);
          return () => void change.gradient.lerp_(moment, weight);
        }),
      );
      for (const { name, start, change, moment } of parts)
        selected.set(name, { gradient: change.gradient, gate: granularity.gate(mask, start, moment) });
      record(update, mask, parts);
      return selected;
    },
  };
  if (!usesFirst) return layer;
  return Object.assign(layer, {
    losses(step, next) {
      if (!bringsBase(step.run)) return next();
      const task = twoPassTask(step);
      return new Map(next()).set("task", task);
    },
    gradients(step, next) {
      if (!refreshes(Math.floor(step.number / step.run.settings.accumulate))) return next();
      const loss = divergenceOf(step);
      // The divergence first, over a graph that the base's total still needs; its gradients end with the masks.
      const risky = gradientsOf(loss, eligibleOf(step.run, chosen.eligible), true);
      const gradients = next();
      step.log(
        divergence,
        noGrad(() => loss.detach()),
      );
      return { ...gradients, others: new Map([...gradients.others, [divergence, risky]]) };
    },
  } satisfies Partial<Layer>);
}

export const rose = defineMethod({
  name: "rose",
  summary: "updates only the parameters of low risk, by sensitivity to dropout (first), by steps out of their average (second), or both",
  paper: "Jiang et al. 2022, ROSE: Robust Selective Fine-tuning for Pre-trained Language Models",
  options,
  create: createRose,
});
