import { summarizeAnswers } from "../../actions/measure/clean.js";
import { formatCount, formatPercent, formatPoints } from "../../base/format.js";
import { formatDegeneracy } from "../../evaluation/degenerate.js";
import { quantile, wilsonInterval } from "../../evaluation/statistics.js";
import type { EvaluationResult } from "../../runs/results.js";
import { splitWords } from "../../text/words.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import { type AuditContext, ask, describeDomain, type StepResult, suggestHarden, suggestTraining } from "../context.js";
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
      checkClasses(answered, evaluation),
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
function checkClasses(context: AuditContext, { confusionMatrix }: EvaluationResult): Claim {
  const { task, examples, answers } = context;
  const classes = task.labels.flatMap((label, index) => {
    const row = confusionMatrix[index]!;
    const count = row.reduce((sum, value) => sum + value, 0);
    const found = row[index]!;
    const isDegenerate = wilsonInterval(found, count).high < 1 / task.labels.length || found === 0;
    return count < minClassTexts ? [] : [{ label, index, count, recall: found / count, isDegenerate }];
  });
  const degenerate = classes.filter(({ isDegenerate }) => isDegenerate);
  const names = degenerate.map(({ label }) => label).join(", ");
  return createClaim({
    id: "degenerate-class",
    area: "clean",
    severity: degenerate.length > 0 ? "high" : null,
    claim: "Every class is recognized better than by guessing.",
    summary: `Recall: ${classes.map(({ label, recall, count }) => `${label} ${formatPercent(recall)} of ${formatCount(count)} texts`).join(", ")}.`,
    domain: describeDomain(context),
    method: "recall of each class with its Wilson interval, compared with a guess",
    numbers: Object.fromEntries(classes.map(({ label, recall }) => [label, recall])),
    texts: degenerate.flatMap(({ label, index }) =>
      examples.flatMap((example, i) => {
        const probability = answers[i]![index]!;
        if (example.label !== index || probability >= Math.max(...answers[i]!)) return [];
        return [showExample(example, `probability of ${label}: ${formatPercent(probability)}`)];
      }),
    ),
    remedy: suggestTraining(context, `Add texts of ${names}, and train again.`),
  });
}

/** Groups with fewer texts are too small. */
const minSliceTexts = 20;
/** A difference of accuracy that matters. */
const minDrop = 0.1;

/** Compares each group of texts with all others. */
function checkSlices(context: AuditContext, { outcomes, accuracy: pooled }: EvaluationResult): Claim[] {
  const { examples, task, request } = context;
  const lengths = examples.map(({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0));
  const [low, high] = [quantile(lengths, 0.25), quantile(lengths, 0.75)].map(Math.round) as [number, number];
  const groupings = {
    length: lengths.map((each) => (each <= low ? `at most ${low} words` : each > high ? `over ${high} words` : "")),
    label: examples.map(({ label }) => task.labels[label]!),
    ...(request.slices !== null && { [request.slices]: examples.map(({ slice = "" }) => slice) }),
  };
  const all = [...examples.keys()];
  const measure = (indices: readonly number[]): number =>
    indices.filter((i) => outcomes.correct[i] === "1").length / indices.length;
  return Object.entries(groupings).flatMap(([name, values]) => {
    const groups = [...new Set(values)].flatMap((value) => {
      const [inside, outside] = [all.filter((i) => values[i] === value), all.filter((i) => values[i] !== value)];
      if (value === "" || Math.min(inside.length, outside.length) < minSliceTexts) return [];
      const [accuracy, others] = [measure(inside), measure(outside)];
      const error = Math.sqrt(pooled * (1 - pooled) * (1 / inside.length + 1 / outside.length)) || 1;
      const drop = others - accuracy;
      // Bonferroni: with 20 groups, 3.5 standard errors are a 1% chance of any false finding.
      return [{ value, inside, accuracy, others, drop, isWorse: drop > 3.5 * error && drop >= minDrop }];
    });
    const [worst, ...rest] = groups.sort((a, b) => Number(b.isWorse) - Number(a.isWorse) || b.drop - a.drop);
    if (!worst) return [];
    const { value, inside, accuracy, others, drop, isWorse } = worst;
    const also = rest.filter((each) => each.isWorse).map((each) => `${each.value} (${formatPercent(each.accuracy)})`);
    return [
      createClaim({
        id: `slice-${name}`,
        area: "clean",
        severity: isWorse ? rateSeverity(drop, [minDrop, 0.2, 0.5]) : null,
        claim: `Accuracy does not depend on ${name}.`,
        summary:
          `On ${formatCount(inside.length)} texts with ${name} ${value}, accuracy is ${formatPercent(accuracy)}: ` +
          `${formatPoints(Math.abs(drop))} points ${drop >= 0 ? "less" : "more"} than on the others.` +
          `${also.length > 0 ? ` Also worse: ${also.join(", ")}.` : ""}`,
        domain: describeDomain(context),
        method: "two-sample test of proportions over all groups, at 3.5 standard errors",
        numbers: { accuracy, others, texts: inside.length },
        texts: isWorse
          ? inside.flatMap((i) =>
              outcomes.correct[i] === "1" ? [] : [showExample(examples[i]!, task.labels[examples[i]!.label]!)],
            )
          : [],
        remedy: suggestTraining(context, "Add labeled texts of this kind, and train again."),
      }),
    ];
  });
}
