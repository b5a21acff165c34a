import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { orNull } from "../base/validate.js";
import { getHighestOther, logitMargin, type Score } from "../models/inference/score.js";
import type { EditedText } from "./edited-text.js";

export interface Goal {
  readonly name: string;
  /** True if the search goes on after the goal is reached, until nothing improves the value. */
  readonly isMaximized?: boolean;
  /** True if a text that reaches the goal has the same prediction as the original one. */
  readonly keepsPrediction?: boolean;
  /** Higher is closer to the goal. `original` is the score of the original text. */
  computeValue(score: Score, label: number, text: EditedText, original: Score): number;
  isReached(score: Score, label: number, text: EditedText): boolean;
  /** Returns true if examples of a class are attacked. Default: all are. */
  attacksLabel?(label: number): boolean;
}

/** The classification margin: the gold label's probability minus the highest other one. */
export function margin(score: Pick<Score, "probabilities">, label: number): number {
  return score.probabilities[label]! - getHighestOther(score.probabilities, label);
}

/** The logit margin of the original text after rescaling: its probability is then 0.98. */
const originalMargin = 4;

/**
 * The value of a score for searches, from 0 (the label is certain) to 1 (another class is). It is the
 * probability of the other class of the two at the temperature at which the original text has a
 * logit margin of 4. So a model whose logits are all multiplied by a number, which makes it look
 * overconfident, is searched in the same way.
 */
function computeDoubt(score: Score, label: number, original: Score): number {
  const scale = Math.abs(logitMargin(original, label)) || 1;
  return 1 / (1 + Math.exp((originalMargin * logitMargin(score, label)) / scale));
}

/** Returns whether the margin is negative. A tie is not a misclassification. */
export function isMisclassified(score: Score, label: number): boolean {
  return logitMargin(score, label) < 0;
}

/** Below this margin, the summation order within a batch may decide the prediction. */
export const nearTieMargin = 1e-4;

/** Any other class than the gold label: the smaller the logit margin, the better. */
export const untargeted: Goal = {
  name: "untargeted",
  computeValue: (score, label, _, original) => computeDoubt(score, label, original),
  isReached: (score, label) => isMisclassified(score, label),
};

/** One class: the larger its logit margin, the better. Examples of that class are not attacked. */
export function targeted(target: number): Goal {
  return {
    name: `targeted-${target}`,
    computeValue: (score, _label, _text, original) => 1 - computeDoubt(score, target, original),
    isReached: (score) => logitMargin(score, target) > 0,
    attacksLabel: (label) => label !== target,
  };
}

/** The same goal for a victim that returns only the class: the value is 0 or 1. */
export function hardLabel(goal: Goal): Goal {
  return {
    ...goal,
    name: `${goal.name}-hard-label`,
    computeValue: (score, label, text) => Number(goal.isReached(score, label, text)),
  };
}

/**
 * The same goal, but the search compares probabilities, as papers and other tools do. A model whose
 * probabilities are all near 0 and 1 then looks robust.
 */
function byProbability(goal: Goal, target: number | null): Goal {
  return {
    ...goal,
    name: `${goal.name}-probability`,
    computeValue: ({ probabilities }, label) => (target === null ? 1 - probabilities[label]! : probabilities[target]!),
  };
}

/**
 * As few words as possible with the same prediction (Feng et al. 2018): the fraction of removed
 * words, plus p(gold label) at a fixed temperature / number of original words, at most 1. A changed prediction has
 * value 0.
 */
export const inputReduction: Goal = {
  name: "input-reduction",
  isMaximized: true,
  keepsPrediction: true,
  computeValue(score, label, text, original) {
    if (isMisclassified(score, label)) return 0;
    const count = text.original.length;
    return Math.min(1, (count - text.length + 1 - computeDoubt(score, label, original)) / Math.max(1, count));
  },
  isReached: (score, label, text) => !isMisclassified(score, label) && text.length < text.original.length,
};

const labelSchema = z.union([z.string(), z.int().min(0)]);

/** The values that a search compares. The option has no default, so that journals mention it only if it is chosen. */
export const scoresOption = {
  scores: z
    .enum(["margins", "probabilities"])
    .optional()
    .describe("compare logit margins, or probabilities, as papers and other tools do; default: margins"),
};

/** The options of every recipe that wants a wrong class. */
export const goalOptions = {
  target: orNull(labelSchema, "any wrong class").describe("class that the victim should predict, by name or index"),
  hardLabel: z.boolean().default(false).describe("use only the predicted class, not its probability"),
  ...scoresOption,
};

/** The version of a recipe: that of its paper, or that of TextAttack 0.3.11. */
export const compatOption = {
  compat: z.enum(["paper", "textattack"]).default("paper").describe("follow the paper, or TextAttack 0.3.11"),
};

/** Creates the goal that the options of a recipe describe. */
export function createGoal(
  { target: wanted, hardLabel: isHard, scores }: Readonly<z.output<z.ZodObject<typeof goalOptions>>>,
  labels: readonly string[],
): Goal {
  const target = wanted === null ? null : findLabel(wanted, labels);
  const goal = target === null ? untargeted : targeted(target);
  if (isHard) return hardLabel(goal);
  return scores === "probabilities" ? byProbability(goal, target) : goal;
}

/** The class of the texts that a guard accepts. */
export const benignLabelSchema = z
  .union([z.string(), z.int().min(0)], { error: "expected a class by name or index, such as benignLabel=ham" })
  .default(0)
  .describe("class of the texts that the guard accepts, by name or index");

export function findLabel(label: string | number, labels: readonly string[], location = "attack"): number {
  const index = labels.indexOf(String(label));
  if (index >= 0) return index;
  if (typeof label === "number" && label < labels.length) return label;
  throw new UserError(
    `${location}: unknown label "${label}"${didYouMean(String(label), labels)}. The labels are ${labels.join(", ")}.`,
  );
}
