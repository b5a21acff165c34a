import { limitExamples } from "../actions/load/load-task.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { type Callbacks, warn } from "../base/events.js";
import { formatCount } from "../base/format.js";
import { Rng } from "../base/rng.js";
import { quantile } from "../evaluation/statistics.js";
import type { MethodReference } from "../methods/index.js";
import { type RunConfigInput, runConfigSchema } from "../settings/config.js";
import type { Example, Split } from "../tasks/index.js";
import { looksEnglish } from "../text/looks-english.js";
import { splitWords } from "../text/words.js";
import { createEpochBatches, trainSettingsSchema } from "../train/index.js";
import { type ChoiceKey, choiceTable, hardenRequestSchema, type ParsedHardenRequest } from "./harden-request.js";
import type { HardenData } from "./read-data.js";
import { countAttackedTexts, defaultSizes, type Sizes, sizeMethod } from "./sizes.js";

export interface Choice {
  readonly name: string;
  readonly value: string;
  readonly reason: string;
  readonly key: ChoiceKey;
}

type ClassCounts = { readonly label: string } & Readonly<Record<Split, number>>;

export interface HardenPlan {
  readonly task: string;
  readonly classes: readonly ClassCounts[];
  readonly choices: readonly Choice[];
  /** The settings of both models, except for the method. */
  readonly settings: RunConfigInput;
  readonly method: MethodReference;
  /** True if the robust model starts from the standard one. Methods of the user may need the pre-trained weights. */
  readonly continuesStandard: boolean;
  readonly attacks: readonly AttackReference[];
  readonly numExamples: number;
}

/** Tokens of a batch: longer texts have fewer of them, so that a step takes about the same time. */
const tokensPerBatch = 2048;
const largestBatch = 32;
const minEpochs = 2;
/** A class with less than this fraction of an equal share is rare. */
const rareShare = 0.5;

/** Warns about data for which the defaults are wrong. */
export function warnAboutData(request: ParsedHardenRequest, { examples }: HardenData, callbacks: Callbacks): void {
  const texts = [...examples.train, ...examples.test].flatMap((example) => example.texts);
  if (request.substitutions === "wordnet" && !looksEnglish(texts))
    warn(
      callbacks,
      "The texts do not look English, and the substitutions are English synonyms: few words have any, so training and " +
        "attack change little. Pass --substitutions FILE with a table of their language, or --attack deepwordbug, " +
        "which changes letters.",
    );
}

export function planHardening(request: ParsedHardenRequest, data: HardenData, sizes: Sizes): HardenPlan {
  const { task, examples } = data;
  const limit = request.maxTrainSamples ?? sizes.trainTexts;
  const train = limitExamples(task, examples.train, limit, request.seed);
  const length = request.maxLength ?? chooseMaxLength([...train, ...examples.test], sizes.maxTokens);
  const batches = chooseBatches(request, task.labels, train, { length, steps: sizes.steps });
  const numExamples = Math.min(request.numExamples ?? countAttackedTexts(sizes, length), examples.test.length);
  const isLimited = limit < examples.train.length;
  const hasDefaultMethod = isDefault(request, "method");
  /** A choice that depends on the data: the value, how it is shown if not as it is, and the reason. */
  const decided: Partial<Record<ChoiceKey, { value?: unknown; shown?: string; reason: string }>> = {
    ...data.choices,
    maxLength: { value: length, reason: `long enough for 95% of the texts, at most ${sizes.maxTokens}` },
    method: {
      value: hasDefaultMethod ? sizeMethod(request.method, sizes) : request.method,
      reason: choiceTable.method.reason,
    },
    maxTrainSamples: {
      value: isLimited ? limit : null,
      shown: formatCount(train.length),
      reason: isLimited ? `a class-balanced sample of ${formatCount(examples.train.length)}` : "all that there are",
    },
    batchSize: batches.size,
    epochs: batches.epochs,
    numExamples: {
      value: numExamples,
      shown: formatCount(numExamples),
      reason:
        numExamples === examples.test.length ? "all test texts, for both models" : "the same sample for both models",
    },
  };
  const keys = Object.keys(choiceTable) as ChoiceKey[];
  const values = Object.fromEntries(keys.map((key) => [key, decided[key]?.value ?? request[key]]));
  const pick = (shape: object): object => Object.fromEntries(Object.entries(values).filter(([key]) => key in shape));
  const { device, precision, threads, seed, skipBadRows } = request;
  const count = (list: readonly Example[], label: number): number =>
    list.filter((example) => example.label === label).length;
  return {
    task: task.name,
    classes: task.labels.map((label, i) => ({
      label,
      train: count(examples.train, i),
      validation: count(examples.validation, i),
      test: count(examples.test, i),
    })),
    choices: keys.flatMap((key) => {
      const isOpen = isDefault(request, key);
      const { shown = String(values[key]), reason = choiceTable[key].reason } = decided[key] ?? {};
      // Columns and files that nobody named, and that were not guessed, say nothing.
      if (reason === "" || (isOpen && values[key] === null && decided[key]?.shown === undefined)) return [];
      return [{ name: choiceTable[key].title, value: shown, reason: isOpen ? reason : "as you asked", key }];
    }),
    settings: {
      ...(pick(runConfigSchema.shape) as RunConfigInput),
      ...data.settings,
      device,
      precision,
      threads,
      seed,
      skipBadRows,
      train: {
        ...pick(trainSettingsSchema.shape),
        ...batches.sampler,
        // With few validation texts, the choice of a checkpoint would be noise.
        loadBestModelAtEnd: false,
        evalEpochs: [Math.max(1, Math.ceil(batches.epochs.value))],
      },
    },
    method: values.method as MethodReference,
    continuesStandard: hasDefaultMethod,
    attacks: request.attacks,
    numExamples,
  };
}

const defaults = hardenRequestSchema.parse({});

function isDefault(request: ParsedHardenRequest, key: ChoiceKey): boolean {
  return JSON.stringify(request[key]) === JSON.stringify(defaults[key]);
}

/** The length that 95% of the texts need: their words and two or three special tokens. */
function chooseMaxLength(examples: readonly Example[], maxTokens: number): number {
  const lengths = examples.map(
    ({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0) + texts.length + 1,
  );
  return Math.min(maxTokens, 8 * Math.ceil(quantile(lengths, 0.95) / 8));
}

/** Enough steps to learn, counted with the batches that the sampler gives. Rare classes are repeated. */
function chooseBatches(
  request: ParsedHardenRequest,
  labels: readonly string[],
  train: readonly Example[],
  { length, steps }: { readonly length: number; readonly steps: number },
) {
  const counts = labels.map((_, label) => train.filter((example) => example.label === label).length);
  const rarest = Math.min(...counts);
  const isRare = rarest < (rareShare * train.length) / labels.length;
  const wanted = Math.min(largestBatch, 2 ** Math.floor(Math.log2(tokensPerBatch / length)));
  // Every batch has as many texts of a rare class as of the others.
  const batchSize =
    request.batchSize ?? (isRare ? Math.max(1, Math.floor(wanted / labels.length)) * labels.length : wanted);
  const batchSampler = isRare ? ("class-balanced" as const) : ("shuffled" as const);
  const dataset = { items: train.map((example) => ({ example })), lengths: new Int32Array(train.length) };
  const perEpoch = createEpochBatches(
    dataset,
    labels.length,
    { batchSampler, batchSize, groupByLength: false },
    new Rng("harden"),
  ).length;
  // Smaller batches are noisier: 16 texts need 107 steps where 32 need 75.
  const countNeeded = (ofLargest: number): number =>
    Math.ceil(ofLargest * Math.sqrt(Math.max(1, largestBatch / batchSize)));
  const needed = countNeeded(steps);
  const epochs = request.epochs ?? Math.max(minEpochs, Math.ceil(needed / perEpoch));
  const total = Math.round(perEpoch * epochs);
  return {
    sampler: { batchSampler },
    size: {
      value: batchSize,
      shown: `${batchSize} texts${isRare ? ", class-balanced" : ""}`,
      reason: isRare
        ? `the rarest label has ${formatCount(rarest)} of ${formatCount(train.length)} texts; otherwise it would be ignored`
        : "the classes are frequent enough for random batches",
    },
    epochs: {
      value: epochs,
      reason:
        `${formatCount(train.length)} training texts give ${formatCount(total)} steps; ` +
        (steps < defaultSizes.steps
          ? `more do not fit, though a small model needs about ${formatCount(countNeeded(defaultSizes.steps))}`
          : `a small model needs about ${formatCount(needed)}`),
    },
  };
}
