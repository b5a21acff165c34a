import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { validate } from "../base/validate.js";
import { computeOperatingPoints, guardPointsSchema } from "../evaluation/operating-points.js";
import { calibrateThreshold, checkBenignCount } from "../proofs/certificates/index.js";
import { type Calibration, writeCalibration } from "../runs/calibration.js";
import { RunFolder } from "../runs/run-folder.js";
import { dataSchema, flattenData } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { examplesSchema } from "../tasks/custom-task.js";
import type { Example, Split, Task } from "../tasks/index.js";
import { readTexts } from "../tasks/read-texts.js";
import { countOverlap, drawRandomly } from "../tasks/sample.js";
import { loadConfiguredTask } from "./load/load-task.js";
import { writeModelCard } from "./model-card.js";
import { findPositiveLabel, guardOptions } from "./predict/certified-model.js";
import { loadClassifier } from "./predict/text-classifier.js";

export const calibrateRequestSchema = z.strictObject({
  model: z.string().describe("a run folder"),
  benign: dataSchema.describe("file of benign texts: one per line, JSON lines, or a table"),
  textColumn: z.array(z.string()).default([]).describe("column of the text in a table"),
  fpr: z.number().gt(0).lt(1).default(0.01).describe("largest fraction of benign texts that may be flagged"),
  ...guardOptions,
  ...runtimeOptions,
});

const textsPerRound = 64;

/** The operating points come from at most so many texts, because a text can have hundreds of windows. */
const maxTestTexts = 2000;

/**
 * Sets the threshold of a guard by split conformal prediction, and stores it in the run folder. For
 * the next benign text like these, the probability of a false alarm is at most `fpr`. The operating
 * points on test texts are stored, too, for tables, reports, comparisons and the model card.
 *
 *     const { threshold } = await calibrate({ model: "runs/spam", benign: "ham.txt", fpr: 0.01 });
 */
export async function calibrate(
  request: z.input<typeof calibrateRequestSchema>,
  callbacks: Callbacks = {},
): Promise<Calibration> {
  const parsed = validate(calibrateRequestSchema, request, "calibrate");
  const { model, fpr, windows, positiveLabel: given, device, precision, threads } = parsed;
  const run = /^https?:/i.test(model) ? null : await RunFolder.containing(model);
  if (!run)
    throw new UserError(`${model}: expected a run folder, because the threshold is stored in it. Train a run first.`);
  const benign = await readBenign(parsed, run.config.task === null ? run.config.textColumn : []);
  // Before the model is loaded and the texts are scored, which takes long.
  checkBenignCount(benign.length, fpr);
  const task = await loadConfiguredTask(run.config, callbacks);
  await checkUnseen(benign, task);
  const { onEvent } = callbacks;
  const options = { device, precision, threads, windows, positiveLabel: given, onEvent };
  await using classifier = await loadClassifier(model, options);
  const {
    labels,
    use: { guard },
  } = classifier;
  const positiveLabel = labels[guard?.positiveLabel ?? findPositiveLabel(labels, given)]!;
  const test = task.splits.includes("test") ? drawRandomly(await task.load("test"), maxTestTexts, 0) : [];
  const examples = [...benign, ...test];
  const scores: number[] = [];
  for (let start = 0; start < examples.length; start += textsPerRound) {
    const texts = examples.slice(start, start + textsPerRound).map((each) => each.texts as [string, string]);
    const predictions = await classifier.classify(texts);
    scores.push(...predictions.map(({ probabilities }) => probabilities[positiveLabel]!));
    reportProgress(callbacks, "calibrate", scores.length, examples.length);
  }
  const found = computeOperatingPoints(
    test.map(({ label }, i) => ({
      score: scores[benign.length + i]!,
      isPositive: task.labels[label] === positiveLabel,
    })),
  );
  const calibration: Calibration = {
    threshold: calibrateThreshold(scores.slice(0, benign.length), fpr),
    fpr,
    examples: benign.length,
    positiveLabel,
    windows,
    operatingPoints: found && guardPointsSchema.parse(found),
  };
  await writeCalibration(run.folder, calibration);
  const results = await run.results();
  // The card of a guard has its operating points.
  if (results) await writeModelCard(run, results);
  return calibration;
}

export async function readBenign(
  request: Pick<z.output<typeof calibrateRequestSchema>, "benign" | "textColumn">,
  known: readonly string[],
): Promise<Example[]> {
  const { data, textColumn } = flattenData({ data: request.benign, textColumn: request.textColumn });
  if (typeof data !== "string")
    return validate(examplesSchema, data, "benign").map(({ text }, i) => ({
      id: String(i + 1),
      texts: [text].flat(),
      label: 0,
    }));
  const isTable = /\.(csv|tsv|parquet)$/i.test(data);
  const examples: Example[] = [];
  for await (const { texts, line } of readTexts(data, textColumn.length > 0 || !isTable ? textColumn : [...known]))
    examples.push({ id: String(line), texts, label: 0 });
  return examples;
}

/** The contract is about texts that the model has not seen, and that it is not evaluated on. */
async function checkUnseen(benign: readonly Example[], task: Task): Promise<void> {
  const uses = { train: "trained on", validation: "selected by", test: "evaluated on" };
  for (const split of Object.keys(uses) as Split[]) {
    if (!task.splits.includes(split)) continue;
    const overlap = countOverlap(await task.load(split), benign);
    if (overlap > 0)
      throw new UserError(
        `--benign: ${overlap} of ${benign.length} texts are in the ${split} split, which the run is ${uses[split]}, so ` +
          "the rate would not hold. Use other texts.",
      );
  }
}
