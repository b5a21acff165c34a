import { stat } from "node:fs/promises";
import { join } from "node:path";
import { loadConfiguredTask } from "../actions/load/load-task.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFolder, exists, readText, writeFileAtomic } from "../base/files.js";
import { formatCount, formatPercent } from "../base/format.js";
import { toFlag } from "../base/shell.js";
import { quantile } from "../evaluation/statistics.js";
import type { MethodReference } from "../methods/index.js";
import { flattenData, type RunConfigInput, runConfigSchema } from "../settings/config.js";
import { formatDataName } from "../tasks/custom-task.js";
import { type Example, type Split, type Task, writeExamplesFile } from "../tasks/index.js";
import { splitExamples } from "../tasks/split-examples.js";
import { splitWords } from "../text/words.js";
import { hardenRequestSchema, type ParsedHardenRequest } from "./harden-request.js";

/** One choice, and why it was made. */
export interface Choice {
  readonly name: string;
  readonly value: string;
  readonly reason: string;
  /** The flag that replaces the choice. */
  readonly flag: string;
}

/** What `harden` is going to do. */
export interface HardenPlan {
  readonly task: string;
  /** Texts per label in each split. */
  readonly classes: readonly ({ readonly label: string } & Readonly<Record<Split, number>>)[];
  readonly choices: readonly Choice[];
  /** The settings of both models, except for the method. */
  readonly settings: RunConfigInput;
  readonly method: MethodReference;
  readonly attacks: readonly AttackReference[];
  readonly numExamples: number;
}

const defaultBatchSize = 32;
/** With fewer optimizer steps, the small model hardly learns. */
const minSteps = 75;
const minEpochs = 2;
const maxTokens = 128;
/** A class with less than this fraction of an equal share is rare. */
const rareShare = 0.5;

/** Reads the data and makes every choice that the request leaves open. */
export async function planHardening(request: ParsedHardenRequest, callbacks: Callbacks): Promise<HardenPlan> {
  const { task, data, heldOut } = await readData(request, callbacks);
  const [train, test] = [await task.load("train"), await task.load("test")];
  const validation = task.splits.includes("validation") ? await task.load("validation") : [];
  const count = (examples: readonly Example[], label: number): number =>
    examples.filter((example) => example.label === label).length;
  const classes = task.labels.map((label, i) => ({
    ...{ label, train: count(train, i), validation: count(validation, i), test: count(test, i) },
  }));
  const empty = classes.find((each) => each.train === 0 || each.test === 0);
  if (empty)
    throw new UserError(
      `${task.name}: the label ${empty.label} has ${empty.train} training and ${empty.test} test texts. ` +
        "Expected at least one of each. Add texts of this label, or remove the label.",
    );
  const maxLength = request.maxLength ?? chooseMaxLength([...train, ...test]);
  const numExamples = Math.min(request.numExamples, test.length);
  const batches = chooseBatches(request, classes);
  const { device, precision, threads, seed, skipBadRows, model, method, tokenization, substitutions } = request;
  const { learningRate, attacks } = request;
  const describe = (name: string, key: keyof ParsedHardenRequest, value: string | number, reason: string): Choice => ({
    name,
    value: String(value),
    reason: isDefault(request, key) ? reason : "as you asked",
    flag: toFlag(key),
  });
  const choices: Choice[] = [
    describe("model", "model", model, "it comes with temper-nlp-demo and trains on a CPU in minutes"),
    describe(
      "tokenization",
      "tokenization",
      tokenization,
      "one token per word, so that the method can replace words in training",
    ),
    describe(
      "substitutions",
      "substitutions",
      substitutions,
      "synonyms of English words; for another language, pass a table",
    ),
    describe("max length", "maxLength", maxLength, `long enough for 95% of the texts, at most ${maxTokens}`),
    ...(heldOut === null
      ? []
      : [{ name: "test texts", value: formatCount(test.length), reason: heldOut, flag: "--test-data" }]),
    describe("method", "method", method, "trains against the worst mixture of synonyms; its weight suits few texts"),
    describe("epochs", "epochs", batches.settings.epochs, batches.reasons.epochs),
    {
      name: "batches",
      value: batches.description,
      reason: batches.reasons.batches,
      flag: "--batch-size",
    },
    describe("learning rate", "learningRate", learningRate, "small models learn little from few texts at lower rates"),
    {
      name: "weights",
      value: "the last ones",
      reason: "with few validation texts, the choice of a checkpoint would be noise",
      flag: "--epochs",
    },
    {
      ...describe("attack", "attacks", attacks.join(", "), "replaces words with synonyms, the most telling first"),
      flag: "--attack",
    },
    describe(
      "attacked texts",
      "numExamples",
      formatCount(numExamples),
      numExamples === test.length ? "all test texts, the same for both models" : "the same sample for both models",
    ),
  ];
  return {
    task: task.name,
    classes,
    choices,
    method,
    attacks,
    numExamples,
    settings: {
      ...data,
      ...{ device, precision, threads, seed, skipBadRows, model, tokenization, substitutions, maxLength },
      train: { ...batches.settings, learningRate, loadBestModelAtEnd: false },
    },
  };
}

const defaults = hardenRequestSchema.parse({});

function isDefault(request: ParsedHardenRequest, key: keyof ParsedHardenRequest): boolean {
  return JSON.stringify(request[key]) === JSON.stringify(defaults[key]);
}

/** Where both runs read their data. */
type DataSettings = Pick<
  RunConfigInput,
  "task" | "data" | "textColumn" | "labelColumn" | "labelMap" | "validationData" | "testData"
>;

/**
 * Loads the data. One file or array is split here: the default of 10% would leave too few test texts
 * of a few hundred to find a difference.
 */
async function readData(
  request: ParsedHardenRequest,
  callbacks: Callbacks,
): Promise<{ readonly task: Task; readonly data: DataSettings; readonly heldOut: string | null }> {
  const { task: name, data, textColumn, labelColumn, labelMap } = flattenData(request);
  const { validationData, testData, out, attackedLabel } = request;
  const task = await loadConfiguredTask(request, callbacks);
  if (attackedLabel !== null && !task.labels.includes(attackedLabel))
    throw new UserError(`--attacked-label: expected a label (${task.labels.join(", ")}), received ${attackedLabel}`);
  const given: DataSettings = { task: name, data, textColumn, labelColumn, labelMap, validationData, testData };
  const isOne = typeof data === "string" ? ((await stat(data).catch(() => null))?.isFile() ?? false) : data !== null;
  if (!isOne || name !== null || testData !== null || validationData !== null)
    return { task, data: given, heldOut: null };
  const all = (await Promise.all(task.splits.map((split) => task.load(split)))).flat();
  const fraction = Math.max(0.1, Math.min(0.3, defaults.numExamples / all.length));
  const { test, rest } = splitExamples(all, { test: { fraction } });
  const folder = join(out, "data", typeof data === "string" ? formatDataName(data) : "examples");
  createFolder(folder);
  await writeOnce(join(folder, "train.jsonl"), task, rest);
  await writeOnce(join(folder, "test.jsonl"), task, test);
  const fields = task.fields.length === 1 ? ["text"] : ["sentence1", "sentence2"];
  const split: DataSettings = { data: folder, textColumn: fields, labelColumn: "label" };
  return {
    task: await loadConfiguredTask(runConfigSchema.parse({ model: request.model, ...split }), callbacks),
    data: split,
    heldOut: `${formatPercent(fraction, 0)} of the data are held out; with fewer, a difference would not be seen`,
  };
}

/** Writes the examples, unless the folder already has results of other ones. */
async function writeOnce(path: string, task: Task, examples: readonly Example[]): Promise<void> {
  const rows = examples.map(({ texts, label }) => ({
    text: texts.length === 1 ? texts[0]! : ([texts[0]!, texts[1]!] as [string, string]),
    label: task.labels[label]!,
  }));
  const before = (await exists(path)) ? await readText(path, "the data") : null;
  await writeExamplesFile(path, rows);
  if (before === null || before === (await readText(path, "the data"))) return;
  await writeFileAtomic(path, before);
  throw new UserError(`${path} has other texts than the data now: the file has changed. Choose a different --out.`);
}

/** The length that 95% of the texts need: their words and two or three special tokens. */
function chooseMaxLength(examples: readonly Example[]): number {
  const lengths = examples.map(
    ({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0) + texts.length + 1,
  );
  return Math.min(maxTokens, 8 * Math.ceil(quantile(lengths, 0.95) / 8));
}

/** Enough steps to learn. If a class is rare, every batch has as many of its texts as of the others. */
function chooseBatches(request: ParsedHardenRequest, classes: HardenPlan["classes"]) {
  const total = classes.reduce((sum, { train }) => sum + train, 0);
  const rarest = Math.min(...classes.map(({ train }) => train));
  const isRare = rarest < (rareShare * total) / classes.length;
  const perClass = Math.max(1, Math.min(Math.floor(defaultBatchSize / classes.length), rarest));
  const batchSize = request.batchSize ?? (isRare ? perClass * classes.length : defaultBatchSize);
  const steps = isRare ? Math.max(1, Math.floor(rarest / (batchSize / classes.length))) : Math.ceil(total / batchSize);
  const epochs = request.epochs ?? Math.max(minEpochs, Math.ceil(minSteps / steps));
  return {
    settings: {
      epochs,
      batchSize,
      ...(isRare && { batchSampler: "class-balanced" as const }),
      evalEpochs: [Math.ceil(epochs)],
    },
    description: `${batchSize} texts${isRare ? ", class-balanced" : ""}`,
    reasons: {
      epochs: `${formatCount(total)} training texts give ${formatCount(steps * epochs)} steps; a small model needs about ${minSteps}`,
      batches: isRare
        ? `the rarest label has ${formatCount(rarest)} of ${formatCount(total)} texts; otherwise it would be ignored`
        : "the classes are frequent enough for random batches",
    },
  };
}
