import { z } from "zod";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { Rng } from "../../base/rng.js";
import { orNull, seedSchema } from "../../base/validate.js";
import { calibrateLabelSets, listLabels } from "../../proofs/certificates/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import { dataOptions } from "../../settings/config.js";
import type { Example } from "../../tasks/index.js";
import { countOverlap } from "../../tasks/sample.js";
import { loadConfiguredTask, loadRequestedTask } from "../load/load-task.js";
import { findEditableFields } from "./certified-model.js";
import type { Prediction, TextClassifier } from "./text-classifier.js";

/** The keys of a request for label sets. */
export const labelSetOptions = {
  coverage: orNull(z.number().gt(0).lt(1)).describe(
    "also give the set of labels that contains the true one with this probability",
  ),
  calibration: orNull(z.string()).describe("file of labeled texts that --coverage is calibrated with"),
  edits: z
    .number()
    .int()
    .min(0)
    .max(100)
    .default(0)
    .describe("number of word edits of an attacker under which --coverage holds (needs a run with deletion-noise)"),
  seed: seedSchema.default(0).describe("random seed of the noise of --edits; keep it secret from an attacker"),
};

/** Gives each text its set of labels. */
export interface LabelSets {
  /** The text whose prediction decides the set: the text itself, or noised against edits. */
  noise(texts: readonly string[], index: number): readonly string[];
  list(prediction: Pick<Prediction, "probabilities">): string[];
}

/** Calibrates label sets with the labeled texts of a request; null if it asks for none. */
export async function createLabelSets(
  classifier: TextClassifier,
  request: {
    readonly coverage: number | null;
    readonly calibration: string | null;
    readonly edits: number;
    readonly seed: number;
  },
  callbacks: Callbacks,
): Promise<LabelSets | null> {
  const { coverage, calibration, edits, seed } = request;
  if (coverage === null) {
    if (calibration === null && edits === 0) return null;
    throw new UserError("--calibration and --edits are about label sets. Pass --coverage, such as 0.9.");
  }
  if (calibration === null)
    throw new UserError("--coverage: expected labeled texts to calibrate with. Pass --calibration FILE.");
  const run = await RunFolder.containing(classifier.model.folder);
  const examples = await loadCalibration(calibration, classifier, run, callbacks);
  const noise = createNoise(run, edits);
  const rng = new Rng(seed);
  const rows = await classifyAll(
    classifier,
    examples.map(({ texts }, i) => noise.apply(texts, rng.fork("calibration", i))),
  );
  const labels = examples.map(({ label }) => label);
  const maxScore = calibrateLabelSets(rows, labels, coverage, noise.shift);
  return {
    noise: (texts, index) => noise.apply(texts, rng.fork("prediction", index)),
    list: ({ probabilities }) =>
      listLabels(toRow(classifier.labels, probabilities), maxScore).map((label) => classifier.labels[label]!),
  };
}

function toRow(labels: readonly string[], probabilities: Prediction["probabilities"]): number[] {
  return labels.map((label) => probabilities[label]!);
}

async function classifyAll(classifier: TextClassifier, texts: readonly (readonly string[])[]): Promise<number[][]> {
  const predictions = await classifier.classify(texts as readonly [string, string][]);
  return predictions.map(({ probabilities }) => toRow(classifier.labels, probabilities));
}

async function loadCalibration(
  data: string,
  { model }: TextClassifier,
  run: RunFolder | null,
  callbacks: Callbacks,
): Promise<Example[]> {
  const request = z.object(dataOptions).parse({ data });
  const task = await loadRequestedTask(request, model, run, callbacks);
  const examples = await task.load("test");
  const train = run && (await (await loadConfiguredTask(run.config, callbacks)).load("train"));
  const overlap = train ? countOverlap(train, examples) : 0;
  if (overlap > 0)
    throw new UserError(
      `--calibration: ${overlap} of ${examples.length} texts are in the training data, so the coverage would not hold. ` +
        "Use other texts.",
    );
  return examples;
}

/** The noise against edits. Without edits, texts stay as they are. */
function createNoise(
  run: RunFolder | null,
  edits: number,
): { readonly shift: number; apply(texts: readonly string[], rng: Rng): readonly string[] } {
  if (edits === 0) return { shift: 0, apply: (texts) => texts };
  const noise = run?.certificate?.noise;
  if (!noise)
    throw new UserError(
      "--edits: expected a run that was trained on texts with deleted words. Train one with --method deletion-noise, " +
        "or leave --edits out.",
    );
  const fields = findEditableFields(run!);
  return { shift: noise.computeShift(edits), apply: (texts, rng) => noise.createKernel(texts, fields)(rng) };
}
