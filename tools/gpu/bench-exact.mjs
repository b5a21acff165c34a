#!/usr/bin/env node
// Texts per second of `temper exact`, of the attack pool and of the classifier alone, on a model with random weights.
//   node tools/gpu/bench-exact.mjs [--sizes minilm,base] [--precisions bf16,fp8] [--device cuda:0] [--texts 6] [--words 32]
//     [--seconds 5] [--batch 8192]
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { EditedText } from "../../dist/attacks/edited-text.js";
import { createRecipeAttack, loadAttack } from "../../dist/attacks/load-attack.js";
import { createModelVictim } from "../../dist/attacks/model-victim.js";
import { SearchPool } from "../../dist/attacks/pool.js";
import { classify, createClassifier } from "../../dist/models/index.js";
import { LevelScorer } from "../../dist/proofs/exact/score-candidates.js";
import { free, Rng } from "../../dist/tensor/index.js";
import { encodeWords } from "../../dist/text/encoding.js";
import { createRandomModel, createSubstitutions } from "./workload.mjs";

const { values } = parseArgs({
  options: {
    sizes: { type: "string", default: "minilm,base" },
    precisions: { type: "string", default: "bf16,fp8" },
    device: { type: "string", default: "cuda:0" },
    texts: { type: "string", default: "6" },
    words: { type: "string", default: "32" },
    seconds: { type: "string", default: "5" },
    batch: { type: "string", default: "8192" },
  },
});
const batch = Number(values.batch);
const configs = {
  bf16: { device: values.device, computeDtype: "bfloat16", returnsLogits: true },
  fp8: { device: values.device, computeDtype: "bfloat16", returnsLogits: true, isQuantized: true },
};
const rng = new Rng("bench exact");
const createText = () => Array.from({ length: Number(values.words) }, () => 1000 + rng.integer(29_000)).join(" ");
const measure = async (name, run) => {
  const start = performance.now();
  const texts = await run();
  const speed = texts / ((performance.now() - start) / 1000);
  console.log(`  ${name}: ${Math.round(speed)} texts/s (${texts} texts)`);
  return speed;
};

/** A limit for each measurement, so that slow devices end, too. */
const createDeadline = () => {
  const end = performance.now() + 1000 * Number(values.seconds);
  return () => performance.now() > end;
};

const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
writeFileSync(join(folder, "config.json"), "{}");
const results = [];
const pairs = values.sizes.split(",").flatMap((size) => values.precisions.split(",").map((each) => [size, each]));
for (const [size, precision] of pairs) {
  const deviceConfig = configs[precision];
  const model = createRandomModel(size, values.device, { tokenization: "word" });
  const { special } = model.tokenizer;
  const tokenizer = {
    ...model.tokenizer,
    encodeWords: (texts, maxLength) => encodeWords(texts, maxLength, special, (words) => words.map(Number)),
    idsToTokens: (ids) => [...ids].map(String),
  };
  const used = { ...model, folder, tokenizer };
  const classifier = createClassifier(used, model.weights, deviceConfig);
  const base = await createModelVictim(used, classifier, deviceConfig);
  // Random weights decide by chance. With this bias, no text is misclassified, so nothing ends early.
  const victim = {
    ...base,
    logits: async (inputs) =>
      (await base.logits(inputs)).map((row) => row.map((value, i) => value + (i === 0 ? 9 : 0))),
  };
  console.log(`${size}, ${values.words} words, ${precision}, random weights`);
  const table = createSubstitutions();
  const scoreLevels = async (count, isOver) => {
    let scored = 0;
    for (let index = 0; index < count && !isOver(); index++) {
      const original = EditedText.create([createText()], victim.findWords);
      const substitutions = original.words.flatMap((word, position) =>
        table.getSubstitutes(word).map((each) => [position, each]),
      );
      const level = { original, label: 0, index, changes: 3, substitutions, end: 24 * batch };
      const scorer = new LevelScorer(victim, level);
      while (!isOver() && (await scorer.scoreBlock((texts) => (scored += texts))));
    }
    return scored;
  };
  await scoreLevels(1, createDeadline());
  const encodings = Array.from({ length: 4 * batch }, () => used.tokenizer.encodeWords([createText()], 512));
  const classifyAll = async () => {
    const isOver = createDeadline();
    let count = 0;
    for (let i = 0; i < 4 && !isOver(); i++, count += batch)
      await classify(classifier, encodings.slice(i * batch, (i + 1) * batch));
    return count;
  };
  await classifyAll();
  const speeds = {
    classifier: await measure("classifier alone", classifyAll),
    pool: await measure("attack pool (pwws)", async () => {
      const pool = new SearchPool(victim, { concurrency: 256 });
      const attack = createRecipeAttack(await loadAttack("pwws"), { substitutions: table, labels: ["0", "1"] });
      const examples = Array.from({ length: 100 * Number(values.texts) }, (_, i) => {
        return { id: String(i), label: 0, texts: [createText()] };
      });
      const isOver = createDeadline();
      for await (const _ of pool.run(examples, attack, { seed: 0 })) if (isOver()) break;
      return pool.counters.evaluations;
    }),
    exact: await measure("exact", () => scoreLevels(Number(values.texts), createDeadline())),
  };
  console.log(`  exact / pool: ${(speeds.exact / speeds.pool).toFixed(2)}`);
  results.push({ size, precision, words: Number(values.words), ...speeds });
  classifier.close();
  free(model.weights);
}
rmSync(folder, { recursive: true });
console.log(JSON.stringify(results));
