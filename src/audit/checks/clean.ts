import { summarizeAnswers } from "../../actions/measure/clean.js";
import { formatCount, formatPercent, formatPoints } from "../../base/format.js";
import { formatDegeneracy } from "../../evaluation/degenerate.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import type { EvaluationResult } from "../../runs/results.js";
import { splitWords } from "../../text/words.js";
import { type Claim, createClaim, rateSeverity, type ShownText } from "../claim.js";
import { type AuditContext, ask, type StepResult } from "../context.js";
import { suggestHarden } from "../remedies.js";
import { checkCalibration } from "./calibration.js";

/** Every number about the examples without an attack. */
export function evaluateAnswers(context: Pick<AuditContext, "task" | "examples" | "answers" | "request">) {
  const { task, examples, answers, request } = context;
  return summarizeAnswers(
    { name: task.name, split: "test", labels: task.labels },
    examples,
    answers.map((probabilities) => ({ probabilities })),
    { positiveLabel: request.positiveLabel },
  );
}

/** Classifies the examples, and checks what their answers say. */
export async function checkClean(context: AuditContext): Promise<StepResult> {
  const texts = context.examples.map((example) => example.texts);
  const answers = (await ask(context, texts, "audit clean")).map((row) => [...row]);
  const answered = { ...context, answers };
  const evaluation = evaluateAnswers(answered);
  return {
    answers,
    claims: [
      checkDegeneracy(answered, evaluation),
      ...checkClasses(answered, evaluation),
      checkCalibration(answered),
      ...checkSlices(answered, evaluation),
    ],
  };
}

function describeDomain({ examples, task }: AuditContext): string {
  return `${formatCount(examples.length)} texts of ${task.name}`;
}

function checkDegeneracy(context: AuditContext, { degeneracy }: EvaluationResult): Claim {
  return createClaim(
    { id: "degenerate-model", area: "clean", claim: "The answers depend on the text." },
    degeneracy === null ? null : "high",
    {
      summary: degeneracy === null ? "The labels are told apart." : formatDegeneracy(degeneracy, "robustness"),
      domain: describeDomain(context),
      method: "confusion matrix and balanced accuracy with its interval",
      ...(degeneracy !== null && suggestHarden(context, "Train on balanced classes.")),
    },
  );
}

/** A class with fewer texts cannot be judged. */
const minClassTexts = 5;

/** A class is degenerate if its recall is below that of a guess. */
function checkClasses(context: AuditContext, { confusionMatrix }: EvaluationResult): Claim[] {
  const { task, examples, answers } = context;
  return task.labels.flatMap((label, index) => {
    const row = confusionMatrix[index]!;
    const count = row.reduce((sum, value) => sum + value, 0);
    if (count < minClassTexts) return [];
    const found = row[index]!;
    const isDegenerate = wilsonInterval(found, count).high < 1 / task.labels.length || found === 0;
    const missed = examples.flatMap(({ id, texts, label: gold }, i): ShownText[] => {
      if (gold !== index || answers[i]![index]! >= Math.max(...answers[i]!)) return [];
      return [{ id, text: texts.join(" | "), note: `probability of ${label}: ${formatPercent(answers[i]![index]!)}` }];
    });
    return [
      createClaim(
        { id: "degenerate-class", area: "clean", claim: `Texts of ${label} are recognized better than by guessing.` },
        isDegenerate ? "high" : null,
        {
          summary: `${formatCount(found)} of ${formatCount(count)} texts of ${label} are recognized (${formatPercent(found / count)}).`,
          domain: `${formatCount(count)} texts of ${label}`,
          method: "recall with its Wilson interval, compared with a guess",
          numbers: { recall: found / count, texts: count },
          ...(isDegenerate && {
            ids: missed.map(({ id }) => id!),
            texts: missed,
            ...suggestHarden(context, `Add texts of ${label}, or train with class-balanced batches.`),
          }),
        },
      ),
    ];
  });
}

/** Groups with fewer texts are too small. */
const minSliceTexts = 20;
/** A difference of accuracy that matters, and the standard errors that are needed after so many comparisons. */
const minDrop = 0.1;

/** Compares the accuracy of each group of texts with that of the others. */
function checkSlices(context: AuditContext, { outcomes }: EvaluationResult): Claim[] {
  const { examples, slices, task, request } = context;
  const lengths = examples.map(({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0));
  const sorted = [...lengths].sort((a, b) => a - b);
  const [low, high] = [0.25, 0.75].map((q) => sorted[Math.floor(q * (sorted.length - 1))]!) as [number, number];
  const groupings: [name: string, values: readonly string[]][] = [
    ["length", lengths.map((each) => (each <= low ? `at most ${low} words` : each > high ? `over ${high} words` : ""))],
    ["label", examples.map(({ label }) => task.labels[label]!)],
    ...(slices ? ([[request.sliceColumn!, slices]] as [string, readonly string[]][]) : []),
  ];
  const groups = groupings.flatMap(([name, values]) =>
    [...new Set(values)].filter((value) => value !== "").map((value) => ({ name, value, values })),
  );
  return groups.flatMap(({ name, value, values }) => {
    const inside = examples.flatMap((_, i) => (values[i] === value ? [i] : []));
    const outside = examples.length - inside.length;
    if (inside.length < minSliceTexts || outside < minSliceTexts) return [];
    const count = (indices: readonly number[]): number => indices.filter((i) => outcomes.correct[i] === "1").length;
    const right = count(inside);
    const [own, others] = [right / inside.length, (count([...examples.keys()]) - right) / outside];
    const pooled = count([...examples.keys()]) / examples.length;
    const error = Math.sqrt(pooled * (1 - pooled) * (1 / inside.length + 1 / outside)) || 1;
    // Bonferroni: with 20 groups, 3.5 standard errors are a 1% chance of any false finding.
    const isWorse = others - own > 3.5 * error && others - own >= minDrop;
    if (!isWorse) return [];
    const wrong = inside.filter((i) => outcomes.correct[i] === "0").map((i) => examples[i]!);
    return [
      createClaim(
        { id: `slice-${name}`, area: "clean", claim: `Accuracy does not depend on ${name}.` },
        rateSeverity(others - own, [minDrop, 0.2, 0.5]),
        {
          summary:
            `On ${formatCount(inside.length)} texts with ${name} ${value}, accuracy is ${formatPercent(own)}: ` +
            `${formatPoints(others - own)} points less than on the others.`,
          domain: describeDomain(context),
          method: "two-sample test of proportions over all groups, at 3.5 standard errors",
          numbers: { accuracy: own, others, texts: inside.length },
          ids: wrong.map(({ id }) => id),
          texts: wrong.map(({ id, texts, label }) => ({ id, text: texts.join(" | "), note: task.labels[label]! })),
          ...suggestHarden(context, "Add labeled texts of this kind, and train again."),
        },
      ),
    ];
  });
}
