#!/usr/bin/env node
// Compares Temper with numbers of the authors' released code on the same toy inputs, and prints a table. The numbers are in
// tests/fixtures/released; docs/explanation/fidelity.md names the commit whose programs computed them from clones of the
// repositories. The exit code is 1 if a part differs.
//   node tools/parity/released/compare.mjs [FOLDER [PART ...]]
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { searchHull } from "../../../dist/hull/convex-hull.js";
import { ascc } from "../../../dist/methods/ascc/ascc.js";
import { mix } from "../../../dist/methods/mixout.js";
import { computeWeightDistance } from "../../../dist/methods/ptwd.js";
import { rDrop } from "../../../dist/methods/r-drop.js";
import { infoNceLoss } from "../../../dist/methods/rift/info-nce.js";
import { rose } from "../../../dist/methods/rose/rose.js";
import { searchPerturbation, smart, sumStableKl, symmetricKlToConstants } from "../../../dist/methods/smart.js";
import { computeTwoPassLoss } from "../../../dist/methods/two-pass-loss.js";
import { AdamW, crossEntropy, klDivergencePerExample, symmetricKl } from "../../../dist/nn/index.js";
import { grad, noGrad, scope, tensor } from "../../../dist/tensor/index.js";
import { native } from "../../../dist/tensor/native.js";
import { trainSettingsSchema } from "../../../dist/train/index.js";
import { computeLearningRateFactor } from "../../../dist/train/settings.js";
import { compareAttacks, prepareAttacks } from "./compare-attacks.mjs";
import {
  compareFisher,
  compareFreelb,
  compareRiftStep,
  fixtures,
  prepareFisher,
  prepareFreelb,
  prepareRiftStep,
} from "./compare-training.mjs";
import { compareWords, prepareWords } from "./compare-words.mjs";
import { compareCounts, compareMany, compareNumbers, judgeRows, row } from "./rows.mjs";

const from = ({ values, shape }) => tensor(Float32Array.from(values), shape);
const read = (value) => [...value.toFloat32Array()];
/** The weights are about 1, so a move is rounded as they are. */
const movedWeights = { size: 1 };
/** A batch of which two passes have these logits. */
function createTwoPasses([first, second], labels) {
  const batch = { labels: tensor(Int32Array.from(labels)), batchSize: labels.length };
  return { batch, log() {}, passTwice: () => [first, second], training: { taskLoss: crossEntropy } };
}

/** ROSE's losses, and its steps with the released rules: quantile, uncorrected epsilon, no masks in the warm-up. */
function compareRose({ names, start, steps, cases, passes }) {
  const [first, second] = passes.logits.map((logits) => ({ logits: from(logits) }));
  const context = createTwoPasses([first, second], passes.labels);
  const divergence = symmetricKl(first.logits, second.logits).mul(passes.labels.length / 4);
  return [
    row("ROSE: divergence", divergence, passes.divergence),
    row("ROSE: cross-entropy of two passes", computeTwoPassLoss(context), passes.crossEntropy),
    ...compareRoseSteps({ names, start, steps, cases }),
  ];
}

function compareRoseSteps({ names, start, steps, cases }) {
  return cases.flatMap(({ variant, warmup, masks, weights }) => {
    const parameters = new Map(Object.entries(start).map(([name, value]) => [`bert.encoder.${name}`, from(value)]));
    const fullNames = names.map((name) => `bert.encoder.${name}`);
    const settings = { beta1: 0.9, beta2: 0.98, epsilon: 1e-6, epsilonMode: "uncorrected" };
    const optimizer = new AdamW(parameters, [{ names: fullNames, weightDecay: 0, learningRate: 1 }], settings);
    optimizer.setLearningRateFactor(1e-2);
    const released = { thresholdRule: "quantile", maskDuringWarmup: false };
    const method = rose.create(rose.options.parse({ variant, updateRatio: 0.6, gamma: 0.5, ...released }));
    const job = { model: { weights: parameters }, settings: { warmupRatio: warmup / steps.length, maxGradNorm: null } };
    const training = { job: { ...job, deviceConfig: { device: "cpu" } }, parameters, totalSteps: steps.length };
    void method.prepare(training);
    const layers = fullNames.filter((name) => name.includes("layer"));
    let differing = 0;
    for (const [stepIndex, { ce, kl }] of steps.entries())
      noGrad(() => {
        const gradients = new Map(names.map((name) => [`bert.encoder.${name}`, from(ce[name])]));
        const divergence = new Map(layers.map((name) => [name, from(kl[name.replace("bert.encoder.", "")])]));
        const step = { training, stepIndex, optimizer, gradients, log() {} };
        const updates = method.transformUpdates(
          { ...step, auxiliaryGradients: new Map([["rose.divergence", divergence]]) },
          () => new Map([...gradients].map(([name, gradient]) => [name, { gradient, mask: null }])),
        );
        const found = layers.map((name) => updates.get(name).mask?.item() ?? 1);
        const expected = masks[stepIndex].values.map((value) => (stepIndex < warmup ? 1 : value));
        differing += found.filter((value, i) => value !== expected[i]).length;
        optimizer.update(updates);
      });
    const list = (read) =>
      names.flatMap((name, i) => read(name, fullNames[i]).map((value, j) => value - start[name].values[j]));
    const label = `ROSE, ${variant}${warmup ? `, ${warmup} steps of warm-up` : ""}`;
    const moved = [list((_, fullName) => read(parameters.get(fullName))), list((name) => weights[name].values)];
    return [
      compareCounts(`${label}: masks`, layers.length * steps.length, differing),
      compareNumbers(`${label}: weights`, ...moved, movedWeights),
    ];
  });
}

function compareSmart(released) {
  const [embeddings, first, second] = [released.embeddings, released.first, released.second].map(from);
  const classify = ({ embeddingOutput }) => ({
    logits: embeddingOutput.matmul(first).tanh().mean([1]).matmul(second),
  });
  const context = {
    batch: { input: { attentionBias: null, packing: null } },
    pass: (_name, { input }) => classify(input),
  };
  const options = smart.options.parse({ projection: "code" });
  const clean = from(released.clean).requiresGrad_();
  const noise = searchPerturbation(context, embeddings, clean, from(released.start), options);
  const loss = symmetricKlToConstants(clean, from(released.perturbed));
  const inner = sumStableKl(classify({ embeddingOutput: embeddings.add(from(released.start)) }).logits, clean);
  return [
    row("SMART: inner loss", inner, released.inner),
    row("SMART: perturbation", noise, released.noise),
    row("SMART: smoothness term", loss, released.loss),
    row("SMART: its gradient", grad(loss, [clean])[0], released.gradient),
  ];
}

/** Temper's loss for the logits of two passes. */
function computeRDropLoss([first, second], { labels, alpha }, reduction) {
  const context = createTwoPasses([{ logits: first }, { logits: second }], labels);
  const method = rDrop.create(rDrop.options.parse({ alpha, reduction }));
  const losses = method.losses(context, () => new Map());
  return losses.get("task").add(losses.get("consistency"));
}

function compareRDrop({ fairseq, ...roberta }) {
  const sum = computeRDropLoss(roberta.logits.map(from), roberta, "sum");
  const leaves = fairseq.logits.map((logits) => from(logits).requiresGrad_());
  // Fairseq divides the sum over the batch by its size in the update.
  const mean = computeRDropLoss(leaves, fairseq, "mean").mul(2 * fairseq.labels.length);
  const slopes = grad(mean, leaves);
  return [
    // Temper's loss is twice the released one.
    row("R-Drop: RoBERTa's loss", sum.mul(0.5), roberta.loss),
    row("R-Drop: fairseq's loss", mean, fairseq.loss),
    ...slopes.map((slope, i) =>
      row(`R-Drop: its gradient, ${i === 0 ? "first" : "second"} pass`, slope, fairseq.gradients[i]),
    ),
  ];
}

/** A linear layer in RIFT's Mixout, which mixes each element separately. Its own call mixes none. */
function compareMixoutWrapper({ p, inputs, weights, current, pretrained, draws, numWrapped, ...released }) {
  const leaves = current.map((value) => from(value).requiresGrad_());
  const [weight, bias] = leaves.map((leaf, i) => {
    const mask = draws[i].values.map((value) => (value < p ? 0 : 1 / (1 - p)));
    return mix(leaf, from(pretrained[i]), from({ ...draws[i], values: mask }));
  });
  const output = from(inputs).matmul(weight.t()).add(bias);
  const slopes = grad(output.mul(from(weights)).sum(), leaves);
  const gradients = new Map(["weight", "bias"].map((name, i) => [name, slopes[i]]));
  return [
    row("RIFT's Mixout: output of a linear layer", output, released.output),
    compareMany("RIFT's Mixout: its gradient", gradients, released.gradients),
    compareCounts("RIFT's Mixout: tensors of BERT that it mixes", released.numTensors, numWrapped),
  ];
}

/** The learning rate at the first and the last of the three steps of each epoch. */
function compareSchedule({ values }) {
  const settings = trainSettingsSchema.parse({ learningRate: 2e-5, lrScheduler: [0.1, 0.55, 1] });
  const ours = values.flatMap((_, epoch) =>
    [0, 2].map((step) => computeLearningRateFactor(settings, 3 * epoch + step, 3 * values.length, epoch)),
  );
  const rates = tensor(Float32Array.from(ours, (factor) => factor * settings.learningRate));
  return row(`RIFT: learning rate in ${values.length} epochs`, rates, {
    values: values.flatMap((rate) => [rate, rate]),
  });
}

function compareAdversary({ text, candidates, first, second, mask, start, weights }) {
  const embedding = { text: from(text), candidates: from(candidates) };
  const count = mask.shape[0];
  const hull = {
    candidateMask: from(mask).gt(0),
    index: tensor(Int32Array.from({ length: count }, (_, i) => count + i)),
    isPacked: false,
  };
  const classify = (embeddings) => embeddings.matmul(from(first)).tanh().mean([1]).matmul(from(second));
  const clean = classify(embedding.text);
  const computeGain = (perturbed) => klDivergencePerExample(clean, classify(perturbed)).sum();
  const ours = searchHull(embedding, hull, from(start), computeGain, ascc.options.parse({}));
  return row("RIFT: adversary, mixture weights after 10 steps", ours, weights);
}

function compareChildTuning({ start, mask, gradients, weights, ...released }, live) {
  const parameters = new Map([["w", from(start)]]);
  const settings = { beta1: 0.9, beta2: 0.999, epsilon: 1e-6, epsilonMode: "uncorrected" };
  const optimizer = new AdamW(parameters, [{ names: ["w"], weightDecay: 0, learningRate: 1 }], settings);
  optimizer.setLearningRateFactor(1e-2);
  for (const gradient of gradients)
    optimizer.update(new Map([["w", { gradient: from(gradient).mul(from(mask)), mask: null }]]));
  const moved = weights.values.map((value, i) => value - start.values[i]);
  const ours = read(parameters.get("w").sub(from(start)));
  return [
    ...compareFisher(released, live),
    compareNumbers("Child-Tuning_D: move in 3 steps", ours, moved, movedWeights),
  ];
}

async function prepareRift(folder) {
  return { step: await prepareRiftStep(), attacks: await prepareAttacks(folder), words: await prepareWords() };
}

function compareRift({ students, teachers, tau, loss, gradient, parameters, distance, adversary, ...released }, live) {
  const normalize = (features) => features.div(features.norm([1], true));
  const leaf = from(students).requiresGrad_();
  const classes = tensor(new Int32Array(students.shape[0]));
  const scores = normalize(from(teachers)).matmul(normalize(leaf).t()).div(tau);
  // Lemma 1 has -log N, the code does not. It has no gradient.
  const ours = infoNceLoss(scores, classes, classes).add(Math.log(students.shape[0]));
  const [now, before] = parameters.map((list) => list.map(from));
  return [
    compareAdversary(adversary),
    row("RIFT: information loss, negatives: students", ours, loss),
    row("RIFT: its gradient", grad(ours, [leaf])[0], gradient),
    row("RIFT: distance of PTWD", computeWeightDistance("cpu", now, before), distance),
    ...compareRiftStep(released.step, live.step),
    compareSchedule(released.rates),
    ...compareMixoutWrapper(released.mixout),
    ...compareWords(released.words, live.words),
    ...compareAttacks(released.attacks, live.attacks),
  ];
}

const parts = {
  rift: { prepare: prepareRift, compare: compareRift },
  rose: { compare: compareRose },
  smart: { compare: compareSmart },
  "r-drop": { compare: compareRDrop },
  freelb: { prepare: prepareFreelb, compare: compareFreelb },
  "child-tuning": { prepare: prepareFisher, compare: compareChildTuning },
};

const [frozen = join(fixtures, "released"), ...given] = process.argv.slice(2);
/** Computations are repeated with other last bits, without and with those of native/binding/jitter.cc. */
const jitterSeeds = [null, 1, 2, 3, 4];

/** Prepares a part in a folder of its own. */
async function preparePart(name) {
  const own = mkdtempSync(join(folder, "part-"));
  // The features of RIFT's teacher are computed now, not read from an earlier run.
  process.env.TEMPER_CACHE = join(own, "cache");
  return parts[name].prepare?.(own);
}

async function comparePart(name) {
  const { compare } = parts[name];
  const released = JSON.parse(gunzipSync(readFileSync(join(frozen, `${name}.json.gz`))).toString());
  const live = await preparePart(name);
  const rows = scope(() => compare(released, live));
  const repeats = [];
  for (const seed of jitterSeeds) {
    const before = native().jitter(seed);
    const again = await preparePart(name);
    repeats.push(scope(() => compare(released, again)));
    native().jitter(before);
  }
  return judgeRows(rows, repeats);
}

const folder = mkdtempSync(join(tmpdir(), "temper-released-"));
process.once("exit", () => rmSync(folder, { recursive: true }));
const rows = [];
for (const name of given.length > 0 ? given : Object.keys(parts)) rows.push(...(await comparePart(name)));
console.log("| part | largest value | largest difference | |\n|---|---|---|---|");
for (const { name, scale, difference, isEqual } of rows)
  console.log(
    `| ${name} | ${scale.toPrecision(3)} | ${difference.toPrecision(2)} | ${isEqual ? "equal" : "DIFFERS"} |`,
  );
process.exitCode = rows.every(({ isEqual }) => isEqual) ? 0 : 1;
