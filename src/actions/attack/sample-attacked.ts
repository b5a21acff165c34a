import { UserError } from "../../base/errors.js";
import { resolveTablePath } from "../../settings/read-config.js";
import { type Example, formatSplit, type Split, type Task } from "../../tasks/index.js";
import { drawExamples, drawRandomly } from "../../tasks/sample.js";
import { loadLmConstraint } from "../../text/lm-constraint.js";

export interface DrawnSample {
  readonly examples: readonly Example[];
  /** The number of texts that the language-model constraint covers, and the total; null without one. */
  readonly coverage: { readonly covered: number; readonly total: number } | null;
}

/**
 * Samples the examples that all attacks of a request share. With a language-model constraint, they
 * come from the texts that it covers, as in RIFT's released code. Attacking other texts without the
 * constraint would mix two attacks in one number.
 */
export async function sampleAttacked(
  task: Task,
  request: {
    readonly split: Split;
    readonly numExamples: number;
    readonly seed: number;
    readonly sampling?: "random" | "class-balanced";
    readonly attackedLabel?: string | null;
    readonly lmConstraint?: string | null;
  },
): Promise<DrawnSample> {
  const { split, numExamples, seed, sampling = "random", attackedLabel = null } = request;
  const lmConstraint = request.lmConstraint ? await loadLmConstraint(resolveTablePath(request.lmConstraint)) : null;
  const loaded = await task.load(split);
  const label = attackedLabel === null ? null : findLabelIndex(task, attackedLabel);
  const all = label === null ? loaded : loaded.filter((example) => example.label === label);
  if (all.length === 0)
    throw new UserError(`${formatSplit(task, split)} ${label === null ? "is empty" : `has no ${attackedLabel}`}.`);
  const isCovered = ({ texts }: Example): boolean =>
    task.modifiableFields.every((field) => lmConstraint!.covers(texts[field] ?? ""));
  const available = lmConstraint ? all.filter(isCovered) : all;
  if (lmConstraint && available.length < Math.min(numExamples, all.length))
    throw new UserError(
      `--lm-constraint ${lmConstraint.name}: expected ${Math.min(numExamples, all.length)} texts to attack ` +
        `(--num-examples), but the file covers ${available.length} of the ${all.length} texts of ` +
        `${formatSplit(task, split)}. ${suggestFix(available.length)}`,
    );
  const drawn =
    sampling === "random"
      ? drawRandomly(available, numExamples, seed)
      : drawExamples(available, numExamples, seed, task.labels.length);
  return { examples: drawn, coverage: lmConstraint && { covered: available.length, total: all.length } };
}

function findLabelIndex({ name, labels }: Task, attackedLabel: string): number {
  const label = labels.indexOf(attackedLabel);
  if (label >= 0) return label;
  throw new UserError(
    `--attacked-label: expected a label of ${name} (${labels.join(", ")}), received ${attackedLabel}`,
  );
}

function suggestFix(covered: number): string {
  return covered === 0
    ? "Create it from the texts of this split."
    : `Pass --num-examples ${covered} or fewer, or add the other texts to the file.`;
}
