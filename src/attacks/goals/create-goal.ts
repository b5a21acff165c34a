import { z } from "zod";
import { didYouMean } from "../../base/did-you-mean.js";
import { UserError } from "../../base/errors.js";
import { orNull } from "../../base/validate.js";
import { byProbability } from "./by-probability.js";
import type { Goal } from "./goal.js";
import { hardLabel } from "./hard-label.js";
import { targeted } from "./targeted.js";
import { untargeted } from "./untargeted.js";

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

/** Finds a class by name or index. */
export function findLabel(label: string | number, labels: readonly string[]): number {
  const index = labels.indexOf(String(label));
  if (index >= 0) return index;
  if (typeof label === "number" && label < labels.length) return label;
  throw new UserError(
    `attack: unknown label "${label}"${didYouMean(String(label), labels)}. The labels are ${labels.join(", ")}.`,
  );
}
