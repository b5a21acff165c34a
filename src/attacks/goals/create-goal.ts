import { z } from "zod";
import { didYouMean } from "../../did-you-mean.js";
import { UserError } from "../../errors.js";
import type { Goal } from "./goal.js";
import { hardLabel } from "./hard-label.js";
import { targeted } from "./targeted.js";
import { untargeted } from "./untargeted.js";

const labelSchema = z.union([z.string(), z.int().min(0)]);

/** The options of every recipe that wants a wrong class. */
export const goalOptions = {
  target: labelSchema
    .nullable()
    .default(null)
    .describe("class that the victim should predict, by name or index; null: any wrong class"),
  hardLabel: z.boolean().default(false).describe("use only the predicted class, not its probability"),
};

/** The version of a recipe: that of its paper, or that of TextAttack 0.3.11. */
export const compatOption = {
  compat: z.enum(["paper", "textattack"]).default("paper").describe("follow the paper, or TextAttack 0.3.11"),
};

/** Creates the goal that the options of a recipe describe. */
export function createGoal(
  options: { readonly target: string | number | null; readonly hardLabel: boolean },
  labels: readonly string[],
): Goal {
  const goal = options.target === null ? untargeted : targeted(findLabel(options.target, labels));
  return options.hardLabel ? hardLabel(goal) : goal;
}

/** Finds a class by name or index. */
export function findLabel(label: string | number, labels: readonly string[]): number {
  const index = labels.indexOf(String(label));
  if (index >= 0) return index;
  if (typeof label === "number" && label < labels.length) return label;
  throw new UserError(
    `attack: expected one of the labels ${labels.join(", ")}, received "${label}"${didYouMean(String(label), labels)}`,
  );
}
