import { takeTurn } from "../../base/event-loop.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { Rng } from "../../base/rng.js";
import { softmax } from "../../base/softmax.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mean } from "../../evaluation/statistics.js";
import type { Example } from "../../tasks/index.js";
import { normalizeText } from "../../tasks/split-examples.js";
import { type Claim, createClaim, rateSeverity, showExample } from "../claim.js";
import { type AuditContext, suggestTraining } from "../context.js";

interface LabelError {
  readonly index: number;
  /** The label that the probabilities speak for. */
  readonly suggested: number;
  /** The probability of the given label minus that of the other one. */
  readonly margin: number;
}

/**
 * Finds likely label errors by confident learning (Northcutt et al. 2021): a text belongs to a class if its
 * probability reaches the mean that texts of this label have, and it is an error if that is another class.
 */
function findLabelErrors(
  rows: readonly ArrayLike<number>[],
  labels: readonly number[],
  numLabels: number,
): LabelError[] {
  const thresholds = Array.from({ length: numLabels }, (_, label) => {
    const own = rows.flatMap((row, i) => (labels[i] === label ? [row[label]!] : []));
    return own.length > 0 ? mean(own) : Number.POSITIVE_INFINITY;
  });
  return rows
    .flatMap((row, index): LabelError[] => {
      const given = labels[index]!;
      const confident = thresholds.flatMap((threshold, label) => (row[label]! >= threshold ? [label] : []));
      const [best = given] = confident.sort((a, b) => row[b]! - row[a]!);
      return best === given || row[given]! >= row[best]!
        ? []
        : [{ index, suggested: best, margin: row[given]! - row[best]! }];
    })
    .sort((a, b) => a.margin - b.margin);
}

const folds = 5;
const epochs = 10;
const learningRate = 0.5;
const decay = 1e-3;

function listFeatures(examples: readonly Example[]): Int32Array[] {
  const indices = new Map<string, number>();
  return examples.map(({ texts }) => {
    const words = texts.flatMap((text, field) =>
      normalizeText(text)
        .split(" ")
        .map((word) => `${field} ${word}`),
    );
    const features = new Set([...words, ...words.slice(1).map((word, i) => `${words[i]} ${word}`)]);
    return Int32Array.from(features, (feature) => {
      const known = indices.get(feature);
      if (known !== undefined) return known;
      indices.set(feature, indices.size);
      return indices.size - 1;
    });
  });
}

/**
 * Cross-validated probabilities of a logistic regression over words: no text is classified by a model that saw
 * its label. AdaGrad needs no tuning for rare words.
 */
async function crossValidate(
  features: readonly Int32Array[],
  labels: readonly number[],
  numLabels: number,
  seed: number,
  signal?: AbortSignal,
): Promise<number[][]> {
  const size = 1 + features.reduce((max, each) => each.reduce((a, b) => Math.max(a, b), max), 0);
  const rng = new Rng(seed).fork("audit", "folds");
  const order = rng.shuffle([...features.keys()]);
  const rows: number[][] = new Array(features.length);
  for (let fold = 0; fold < folds; fold++) {
    const weights = new Float64Array((size + 1) * numLabels);
    const squares = new Float64Array(weights.length).fill(1e-6);
    const predict = (index: number): number[] => {
      const own = features[index]!;
      // Of long texts, each word counts less.
      const scale = 1 / Math.sqrt(own.length);
      const scores = Array.from({ length: numLabels }, (_, label) =>
        own.reduce(
          (sum, feature) => sum + scale * weights[feature * numLabels + label]!,
          weights[size * numLabels + label]!,
        ),
      );
      return softmax(scores);
    };
    const update = (position: number, gradient: number): void => {
      const full = gradient + decay * weights[position]!;
      squares[position]! += full * full;
      weights[position]! -= (learningRate * full) / Math.sqrt(squares[position]!);
    };
    const training = order.filter((_, i) => i % folds !== fold);
    for (let epoch = 0; epoch < epochs; epoch++) {
      await takeTurn(signal);
      for (const index of rng.fork(fold, epoch).shuffle([...training])) {
        const row = predict(index);
        const scale = 1 / Math.sqrt(features[index]!.length);
        for (let label = 0; label < numLabels; label++) {
          const gradient = row[label]! - Number(labels[index] === label);
          for (const feature of features[index]!) update(feature * numLabels + label, scale * gradient);
          update(size * numLabels + label, gradient);
        }
      }
    }
    for (const [i, index] of order.entries()) if (i % folds === fold) rows[index] = predict(index);
  }
  return rows;
}

/** Fewer texts teach a regression nothing, and more take too long. */
const learned = { min: 100, max: 10_000 };
/** Below this fraction, a data set is better than most. */
const limits = [0.02, 0.03, 0.1] as const;
/** The fraction of labels that are exchanged to see how many of them are found. */
const exchanged = 0.05;
/** A search that finds less, or mainly other texts, takes hard texts for errors. */
const [minRecall, minPrecision] = [0.5, 0.3];

/** Exchanges some labels. True errors are among the rest, so the precision on them is a lower bound. */
function exchangeLabels(labels: readonly number[], numLabels: number, seed: number) {
  const rng = new Rng(seed).fork("audit", "exchanged labels");
  const chosen = new Set(rng.shuffle([...labels.keys()]).slice(0, Math.round(exchanged * labels.length)));
  const given = labels.map((label, i) =>
    chosen.has(i) ? (label + 1 + rng.integer(numLabels - 1)) % numLabels : label,
  );
  return { chosen, labels: given };
}

/**
 * Finds likely label errors: of the training data by cross-validation, and of the test data if the model agrees.
 * The errors of a weak model are no label errors, and another kind of model makes others.
 */
export async function checkLabelErrors(context: AuditContext): Promise<Claim[]> {
  const { examples, answers, task, request, callbacks } = context;
  const train = (context.train ?? []).slice(0, learned.max);
  const all = [...train, ...examples];
  if (all.length < learned.min) return [];
  const numLabels = task.labels.length;
  const features = listFeatures(all);
  const search = async (labels: readonly number[]) => {
    const rows = await crossValidate(features, labels, numLabels, request.seed, callbacks.signal);
    const learnedLabels = toPredictions(rows);
    const byModel = findLabelErrors(answers, labels.slice(train.length), numLabels);
    const measureError = (predicted: ArrayLike<number>): number =>
      mean(Array.from(predicted, (label, i) => Number(label !== labels[train.length + i])));
    return {
      // Of models that err independently, so many errors are common.
      chance: measureError(toPredictions(answers)) * measureError(learnedLabels.slice(train.length)),
      training: findLabelErrors(rows, labels, numLabels).filter(({ index }) => index < train.length),
      test: byModel.filter(({ index, suggested }) => learnedLabels[train.length + index] === suggested),
    };
  };
  const labels = all.map(({ label }) => label);
  const found = await search(labels);
  const planted = exchangeLabels(labels, numLabels, request.seed);
  const control = await search(planted.labels);
  const measure = (name: "training" | "test", start: number, count: number) => {
    const total = [...planted.chosen].filter((index) => index >= start && index < start + count).length;
    const right = control[name].filter(({ index }) => planted.chosen.has(start + index)).length;
    const precision = right / Math.max(1, control[name].length);
    return { recall: right / Math.max(1, total), precision, chance: 0 };
  };
  const source = `a ${folds}-fold cross-validated logistic regression over words`;
  const own = measure("test", train.length, examples.length);
  const test = describeErrors(
    context,
    "test",
    examples,
    found.test,
    { ...own, chance: found.chance },
    `the audited model and ${source}`,
  );
  if (train.length === 0) return [test];
  return [
    test,
    describeErrors(context, "training", train, found.training, measure("training", 0, train.length), source),
  ];
}

function describeErrors(
  context: AuditContext,
  name: "test" | "training",
  examples: readonly Example[],
  errors: readonly LabelError[],
  { recall, precision, chance }: Readonly<Record<"recall" | "precision" | "chance", number>>,
  source: string,
): Claim {
  const { labels } = context.task;
  const fraction = errors.length / examples.length;
  const isAble = recall >= minRecall && precision >= minPrecision && fraction >= 2 * chance;
  return createClaim({
    id: name === "test" ? "label-errors" : "label-errors-train",
    area: "data",
    severity: errors.length < 3 || !isAble ? null : rateSeverity(fraction - chance, limits),
    claim: `The labels of the ${name} data are right.`,
    outcome: "inconclusive",
    summary:
      `${formatCount(errors.length)} of ${formatCount(examples.length)} ${name} texts (${formatPercent(fraction)}) ` +
      `${isAble ? "likely" : "may"} have a wrong label. Of labels that were exchanged on purpose, ${formatPercent(recall, 0)} are ` +
      `found (recall), and at least ${formatPercent(precision, 0)} of all that is found is wrong (precision)` +
      `${isAble ? "." : ". Weak models find as many in correct labels."}`,
    domain: `${formatCount(examples.length)} ${name} texts`,
    method:
      `confident learning (Northcutt et al. 2021) with ${source}; recall and precision with ` +
      `${formatPercent(exchanged, 0)} exchanged labels`,
    numbers: { count: errors.length, fraction, recall, precision },
    texts: errors.map(({ index, suggested }) => {
      const example = examples[index]!;
      return showExample(example, `labeled ${labels[example.label]}, likely ${labels[suggested]}`);
    }),
    remedy: suggestTraining(
      context,
      "Read these texts, the most likely errors first, correct their labels, and train again.",
    ),
  });
}
