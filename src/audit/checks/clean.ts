import { summarizeAnswers } from "../../actions/measure/clean.js";
import { formatCount, formatPercent, formatPoints } from "../../base/format.js";
import { formatDegeneracy } from "../../evaluation/degenerate.js";
import { wilsonInterval } from "../../evaluation/statistics.js";
import type { EvaluationResult } from "../../runs/results.js";
import { splitWords } from "../../text/words.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import { type AuditContext, ask, describeDomain, type StepResult, suggestHarden } from "../context.js";
import { checkCalibration } from "./calibration.js";

export function evaluateAnswers({ task, examples, answers, request }: AuditContext): EvaluationResult {
  const texts = { name: task.name, split: "test", labels: task.labels } as const;
  const scores = answers.map((probabilities) => ({ probabilities }));
  return summarizeAnswers(texts, examples, scores, { positiveLabel: request.positiveLabel });
}

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

function checkDegeneracy(context: AuditContext, { degeneracy }: EvaluationResult): Claim {
  return createClaim({
    id: "degenerate-model",
    area: "clean",
    severity: degeneracy === null ? null : "high",
    claim: "The answers depend on the text.",
    summary: degeneracy === null ? "The labels are told apart." : formatDegeneracy(degeneracy, "robustness"),
    domain: describeDomain(context),
    method: "confusion matrix and balanced accuracy with its interval",
    remedy: suggestHarden(context, "Train on balanced classes."),
  });
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
    const missed = examples.flatMap((example, i) => {
      const probability = answers[i]![index]!;
      if (example.label !== index || probability >= Math.max(...answers[i]!)) return [];
      return [showExample(example, `probability of ${label}: ${formatPercent(probability)}`)];
    });
    return [
      createClaim({
        id: "degenerate-class",
        area: "clean",
        severity: isDegenerate ? "high" : null,
        claim: `Texts of ${label} are recognized better than by guessing.`,
        summary: `${formatCount(found)} of ${formatCount(count)} texts of ${label} are recognized (${formatPercent(found / count)}).`,
        domain: `${formatCount(count)} texts of ${label}`,
        method: "recall with its Wilson interval, compared with a guess",
        numbers: { recall: found / count, texts: count },
        texts: isDegenerate ? missed : [],
        remedy: suggestHarden(context, `Add texts of ${label}, or train with class-balanced batches.`),
      }),
    ];
  });
}

/** Groups with fewer texts are too small. */
const minSliceTexts = 20;
/** A difference of accuracy that matters. */
const minDrop = 0.1;

function checkSlices(context: AuditContext, { outcomes, accuracy: pooled }: EvaluationResult): Claim[] {
  const { examples, slices, task, request } = context;
  const lengths = examples.map(({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0));
  const sorted = lengths.toSorted((a, b) => a - b);
  const [low, high] = [0.25, 0.75].map((q) => sorted[Math.floor(q * (sorted.length - 1))]!) as [number, number];
  const groupings: readonly (readonly [name: string, values: readonly string[]])[] = [
    ["length", lengths.map((each) => (each <= low ? `at most ${low} words` : each > high ? `over ${high} words` : ""))],
    ["label", examples.map(({ label }) => task.labels[label]!)],
    ...(slices ? [[request.sliceColumn!, examples.map(({ id }) => slices.get(id)!)] as const] : []),
  ];
  const groups = groupings.flatMap(([name, values]) =>
    [...new Set(values)].filter((value) => value !== "").map((value) => ({ name, value, values })),
  );
  const isRight = (i: number): boolean => outcomes.correct[i] === "1";
  const all = [...examples.keys()];
  return groups.flatMap(({ name, value, values }) => {
    const inside = all.filter((i) => values[i] === value);
    const outside = all.filter((i) => values[i] !== value);
    if (inside.length < minSliceTexts || outside.length < minSliceTexts) return [];
    const [own, others] = [inside, outside].map((indices) => indices.filter(isRight).length / indices.length) as [
      number,
      number,
    ];
    const error = Math.sqrt(pooled * (1 - pooled) * (1 / inside.length + 1 / outside.length)) || 1;
    // Bonferroni: with 20 groups, 3.5 standard errors are a 1% chance of any false finding.
    if (others - own <= 3.5 * error || others - own < minDrop) return [];
    const wrong = inside.filter((i) => !isRight(i)).map((i) => examples[i]!);
    return [
      createClaim({
        id: `slice-${name}`,
        area: "clean",
        severity: rateSeverity(others - own, [minDrop, 0.2, 0.5]),
        claim: `Accuracy does not depend on ${name}.`,
        summary:
          `On ${formatCount(inside.length)} texts with ${name} ${value}, accuracy is ${formatPercent(own)}: ` +
          `${formatPoints(others - own)} points less than on the others.`,
        domain: describeDomain(context),
        method: "two-sample test of proportions over all groups, at 3.5 standard errors",
        numbers: { accuracy: own, others, texts: inside.length },
        texts: wrong.map((example) => showExample(example, task.labels[example.label]!)),
        remedy: suggestHarden(context, "Add labeled texts of this kind, and train again."),
      }),
    ];
  });
}
