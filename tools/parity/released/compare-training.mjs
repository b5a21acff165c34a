// Steps of real training runs of small models beside the authors' code: FreeLB, Child-Tuning, RIFT, PTWD, and ASCC as an attack.
import { join, resolve } from "node:path";
import { equipAttack, loadAttack } from "../../../dist/attacks/load-attack.js";
import { createCounters } from "../../../dist/attacks/query-counters.js";
import { ascc } from "../../../dist/methods/ascc/ascc.js";
import { childTuning, computeFisherDiagonal } from "../../../dist/methods/child-tuning.js";
import { freelb } from "../../../dist/methods/freelb.js";
import { rift } from "../../../dist/methods/rift/rift.js";
import { cpuFloat32, getLayerIndex, loadModel, predictProbabilities } from "../../../dist/models/index.js";
import { noGrad, Rng, tensor } from "../../../dist/tensor/index.js";
import { parseSubstitutionTable } from "../../../dist/text/substitutions.js";
import { toBatch, toHostBatch } from "../../../dist/train/batch-transfer.js";
import { toDataset, trainSettingsSchema } from "../../../dist/train/index.js";
import { sumLosses } from "../../../dist/train/standard-fine-tuning.js";
import { StepBatch } from "../../../dist/train/step-batch.js";
import { createTrainingContext } from "../../../dist/train/training-context.js";
import { compareCounts, compareMany, row } from "./rows.mjs";

export const fixtures = resolve(import.meta.dirname, "../../../tests/fixtures");

/** Words of the vocabulary of the fixture, and two that it lacks. */
const texts = [
  "the film was dull and slow",
  "a joy",
  "not bad at all , it was great",
  "the cat sat there .",
  "it was a slow film and not a joy at all",
  "bad , bad , bad",
];
const labels = [0, 2, 2, 1, 0, 0];
const table = {
  film: ["cat", "movie"],
  dull: ["slow", "bad", "joy"],
  slow: ["dull"],
  joy: ["bad", "cat", "film"],
  bad: ["dull", "slow", "not"],
  sat: ["was"],
  great: ["joy", "all"],
  cat: ["film"],
};
const substitutions = parseSubstitutionTable(table, "toy table");

const toExamples = (list, classes) => list.map((text, i) => ({ id: String(i), texts: [text], label: classes[i] }));

async function startTraining(model, methods, settings = {}, examples = toExamples(texts, labels)) {
  const names = ["bad", "mixed", "good"];
  return createTrainingContext({
    model,
    methods,
    task: { name: "toy", labels: names, fields: ["text"], modifiableFields: [0], metrics: ["accuracy"] },
    settings: trainSettingsSchema.parse({ epochs: 1, batchSize: examples.length, dropout: false, ...settings }),
    train: toDataset(model, examples),
    validation: null,
    seed: 5,
    deviceConfig: cpuFloat32,
    files: null,
    resume: false,
    loadSubstitutions: async () => substitutions,
  });
}

const loadFixture = (name, options = {}) => loadModel(join(fixtures, name), { tokenization: "word", ...options });

function createHostBatch({ job }, count) {
  return toHostBatch(
    job,
    Int32Array.from({ length: count }, (_, i) => i),
  );
}

function createContext(training, host) {
  return new StepBatch(training, toBatch(training.job, host), 0);
}

/** Moves the weights away from the pre-trained ones. */
function moveWeights({ weights }) {
  const rng = new Rng("move");
  noGrad(() => {
    for (const weight of weights.values()) {
      const move = Float32Array.from({ length: weight.numel }, () => 0.01 * rng.normal());
      weight.add_(tensor(move, weight.shape));
    }
  });
}

const freelbOptions = { stepSize: 0.1, initMagnitude: 0.2, maxNorm: 0.15 };
const freelbSteps = [2, 3];

export async function prepareFreelb() {
  const model = await loadFixture("bert-tiny");
  const trainings = [];
  for (const steps of freelbSteps) {
    const method = freelb.create(freelb.options.parse({ ...freelbOptions, steps }));
    trainings.push(await startTraining(model, [method]));
  }
  return { trainings, host: createHostBatch(trainings[0], texts.length) };
}

export function compareFreelb({ gradients }, { trainings, host }) {
  return trainings.map((training, i) => {
    const { total } = training.stack.gradients(createContext(training, host));
    return compareMany(`FreeLB, ${freelbSteps[i]} steps: mean gradient`, total, gradients[i]);
  });
}

const fisherBatchSize = 4;
const fisherSettings = { updateRatio: 0.3, maxGradNorm: 0.05 };

export async function prepareFisher() {
  const model = await loadFixture("bert-tiny");
  const { updateRatio, maxGradNorm } = fisherSettings;
  const method = childTuning.create(childTuning.options.parse({ variant: "D", updateRatio }));
  const training = await startTraining(model, [method], { batchSize: fisherBatchSize, maxGradNorm });
  const parameters = new Map([...model.weights].filter(([name]) => getLayerIndex(name) !== null));
  const fisher = await computeFisherDiagonal(training, parameters);
  return { method, fisher };
}

export function compareFisher({ fisher, masks }, live) {
  const prefix = "child-tuning.mask.";
  const buffers = [...live.method.state().buffers].map(([name, mask]) => [name.slice(prefix.length), mask]);
  const found = new Map(buffers.map(([name, mask]) => [name, mask.to("float32")]));
  const differing = Object.entries(masks).map(([name, { values }]) => {
    const own = found.get(name).toFloat32Array();
    return values.filter((value, i) => value !== own[i]).length;
  });
  const sizes = Object.values(masks).map(({ values }) => values.length);
  return [
    compareMany("Child-Tuning_D: Fisher information", live.fisher, fisher),
    compareCounts("Child-Tuning_D: mask", sum(sizes), found.size === sizes.length ? sum(differing) : sum(sizes)),
  ];
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const attackSeed = 3;
/** released_training.py writes gradients of RIFT with so many digits. */
const writtenDigits = 6;

/** The hull of a batch, with a row per open word: the text and the token position of each word, and its candidates. */
function listHull(hull, length) {
  const [count, width] = hull["ascc.candidateIds"].shape;
  const places = new Array(count);
  for (const [i, index] of hull["ascc.index"].values.entries())
    if (index >= hull["ascc.index"].values.length)
      places[index - hull["ascc.index"].values.length] = [Math.floor(i / length), i % length];
  const getRow = ({ values }, i) => [...values.slice(i * width, (i + 1) * width)];
  const rows = places.flatMap((place, i) =>
    place ? [{ place, ids: getRow(hull["ascc.candidateIds"], i), mask: getRow(hull["ascc.candidateMask"], i) }] : [],
  );
  return rows;
}

/** rift_train.py needs the texts of a class together, and as many of each class. */
const riftTexts = [...texts, "slow and dull", "a great cat", "the film was not bad ."];
const classSize = riftTexts.length / 3;
const riftLabels = riftTexts.map((_, i) => Math.floor(i / classSize));

/** Weights of the terms in a step. A small alpha would hide the information term in the gradient of the encoder. */
const [alpha, beta] = [5, 10];
const asReleased = { alpha, negatives: "students", separatePass: true, projectionHiddenSize: 12, projectionSize: 6 };

/** The steps that are compared: the term of rift_train.py, and Temper's options. On clean text, rift comes before ascc. */
const informationTerms = [
  { label: "per class", term: "mi_giveny_adv", conditional: true, isClean: false },
  { label: "of all classes", term: "mi_adv", conditional: false, isClean: false },
  { label: "per class, clean text", term: "mi_giveny_clean", conditional: true, isClean: true },
];

async function startInformationStep(model, examples, { conditional, isClean, ...names }) {
  const information = rift.create(rift.options.parse({ ...asReleased, conditional }));
  const methods = [ascc.create(ascc.options.parse({ beta })), information];
  const training = await startTraining(model, isClean ? methods.reverse() : methods, {}, examples);
  return { ...names, training, numScores: conditional ? classSize : riftTexts.length };
}

export async function prepareRiftStep() {
  const model = await loadFixture("bert-tiny", { pooling: "pooler", head: "mlp" });
  const examples = toExamples(riftTexts, riftLabels);
  const method = ascc.create(ascc.options.parse({ beta }));
  const training = await startTraining(model, [method], {}, examples);
  const steps = [];
  for (const term of informationTerms) steps.push(await startInformationStep(model, examples, term));
  moveWeights(model);
  const host = createHostBatch(training, riftTexts.length);
  const length = host.padded.sequenceLength;
  const rows = listHull(method.collate(host), length);
  const probabilities = await predictProbabilities(
    model,
    model.weights,
    host.items.map(({ encoding }) => encoding),
  );
  const predicted = probabilities.map((each) => each.indexOf(Math.max(...each)));
  const victim = { model, weights: model.weights, device: "cpu", hashes: {} };
  const { recipe } = equipAttack(await loadAttack("ascc"), { substitutions, model: victim });
  const attacked = [];
  const predictedExamples = toExamples(riftTexts, predicted);
  for await (const result of recipe.search.runAll(recipe, predictedExamples, { seed: attackSeed }, createCounters()))
    attacked.push(result);
  return { training, steps, host, length, rows, attacked };
}

export function compareRiftStep(released, { training, steps, host, length, rows, attacked }) {
  const { model } = training.job;
  const { padId } = model.tokenizer.special;
  const pad = (ids) => [...ids, ...new Array(length - ids.length).fill(padId)];
  const isDifferent = (a, b) => JSON.stringify(a) !== JSON.stringify(b);
  const tokens = host.items.map(({ encoding }) => pad(encoding.ids));
  const candidates = rows.map(({ place, ids, mask }) => {
    const [text, position] = place;
    const own = ids.filter((_, i) => mask[i]);
    const theirs = released.substitutes[text][position].filter((_, i) => released.substituteMask[text][position][i]);
    return isDifferent(own, theirs);
  });
  const open = released.substituteMask.flat().filter((mask) => sum(mask) > 1).length;
  const { total, losses } = training.stack.gradients(createContext(training, host));
  const final = attacked.map(({ finalTexts }) => pad(model.tokenizer.encodeWords(finalTexts, model.maxLength).ids));
  return [
    compareCounts("RIFT: tokens of texts", riftTexts.length, countDifferent(tokens, released.tokens)),
    compareCounts(
      "RIFT: candidates of open words",
      open,
      candidates.filter(Boolean).length + Math.abs(open - rows.length),
    ),
    row("RIFT: loss, cross-entropy + 10 KL", sumLosses(losses), released.loss),
    compareMany("RIFT: its gradient", total, released.gradients, writtenDigits),
    ...steps.flatMap((step, i) => compareInformation(released.terms[i], step, host)),
    compareCounts("ASCC as an attack: texts", riftTexts.length, countDifferent(final, released.attacked)),
  ];
}

/** The information loss in a complete step with cross-entropy and KL, and the gradients of the step. */
function compareInformation(released, { label, training, numScores }, host) {
  const { total, losses } = training.stack.gradients(createContext(training, host));
  // Lemma 1 has -log N, the code does not. It has no gradient.
  const loss = losses.get("information").div(alpha).add(Math.log(numScores));
  const name = `RIFT, information ${label}`;
  return [
    row(`${name}: loss`, loss, released.information),
    compareMany(`${name}: gradient of projections`, total, released.projections, writtenDigits),
    compareMany(`${name}: gradient of the encoder`, total, released.encoder, writtenDigits),
  ];
}

const countDifferent = (a, b) => a.filter((each, i) => JSON.stringify(each) !== JSON.stringify(b[i])).length;
