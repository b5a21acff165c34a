#!/usr/bin/env node
// How strong the convex-hull adversary is against a trained model: on which share of texts ten steps of search move the prediction
// further than the best of ten random mixtures.
//   node scripts/adversary.mjs --model runs/sst2/model --task sst-2 --data DIR --substitutions FILE.json [--max-train-samples 200] [--steps 10]
import { parseArgs } from "node:util";
import { adversaryStrength, shareBeaten } from "../dist/analysis/adversary.js";
import { hullSchema } from "../dist/attacks/ascc-search.js";
import { openWords } from "../dist/attacks/open-words.js";
import { loadModel } from "../dist/models/index.js";
import { openTask } from "../dist/tasks/index.js";
import { limitExamples } from "../dist/tasks/sample.js";
import { chooseDevice, Rng } from "../dist/tensor/index.js";
import { slotsOf } from "../dist/text/replacements.js";
import { loadSubstitutions } from "../dist/text/substitutions.js";

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    task: { type: "string" },
    data: { type: "string" },
    substitutions: { type: "string" },
    limit: { type: "string", default: "200" },
    steps: { type: "string", default: "10" },
    seed: { type: "string", default: "0" },
  },
});

const device = chooseDevice();
const task = await openTask({ task: options.task, data: options.data });
const model = await loadModel(options.model, { labels: task.labels, task: task.name, device });
const substitutions = await loadSubstitutions(options.substitutions);
const examples = limitExamples(
  await task.load("test"),
  Number(options.limit),
  Number(options.seed),
  task.labels.length,
);
const rng = new Rng(Number(options.seed));
const texts = examples
  .map(({ id, texts }) => {
    const encoded = model.tokenizer.encodeWords(texts, model.maxLength);
    const { choices } = slotsOf(encoded.words, encoded.fields, task.openFields, substitutions);
    return {
      encoded,
      open: openWords(choices, encoded.positions, (word) => model.tokenizer.wordToken(word)),
      rng: rng.fork(id),
    };
  })
  .filter(({ open }) => open.tokens.length > 0)
  .sort((a, b) => a.encoded.ids.length - b.encoded.ids.length);

const search = hullSchema.parse({ steps: Number(options.steps) });
const strengths = [];
for (let start = 0; start < texts.length; start += 32)
  strengths.push(
    ...adversaryStrength({ model, weights: model.weights, device }, texts.slice(start, start + 32), search),
  );
const moved = strengths.filter(({ searched, random }) => Math.max(searched, random) > 0.05);
const mean = (pick) => strengths.reduce((sum, each) => sum + pick(each), 0) / strengths.length;
console.log(
  JSON.stringify({
    texts: strengths.length,
    beaten: shareBeaten(strengths),
    // Where neither moves the prediction, the entropy term alone decides.
    moved: moved.length,
    beatenWhereMoved: shareBeaten(moved),
    searched: mean((each) => each.searched),
    bestOfTen: mean((each) => each.random),
  }),
);
