#!/usr/bin/env node
// How strong the convex-hull adversary is against a trained model: the fraction of texts on which ten search steps change the
// prediction more than the best of ten random mixtures.
//   node tools/adversary-strength.mjs --model runs/sst2/model --task sst2 --substitutions FILE.json [--data DIR]
//     [--num-examples 200] [--inner-steps 10] [--seed 0]
import { parseArgs } from "node:util";
import { computeWinRate, measureAdversaryStrength } from "../dist/analysis/adversary.js";
import { findModifiableWords, hullSchema } from "../dist/hull/convex-hull.js";
import { loadModel } from "../dist/models/index.js";
import { loadTask } from "../dist/tasks/index.js";
import { sampleExamples } from "../dist/tasks/sample.js";
import { chooseDevice, Rng } from "../dist/tensor/index.js";
import { loadSubstitutions } from "../dist/text/load-substitutions.js";
import { buildAttackSpace } from "../dist/text/replacements.js";

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    task: { type: "string" },
    data: { type: "string" },
    substitutions: { type: "string" },
    "num-examples": { type: "string", default: "200" },
    "inner-steps": { type: "string", default: "10" },
    seed: { type: "string", default: "0" },
  },
});

const device = chooseDevice();
const task = await loadTask({ task: options.task, data: options.data });
const model = await loadModel(options.model, { labels: task.labels, task: task.name, device });
const substitutions = await loadSubstitutions(options.substitutions);
const [numExamples, seed] = [Number(options["num-examples"]), Number(options.seed)];
const examples = sampleExamples(await task.load("test"), numExamples, seed, task.labels.length);
const rng = new Rng(seed);
const texts = examples
  .map(({ id, texts: fields }) => {
    const encoding = model.tokenizer.encodeWords(fields, model.maxLength);
    const { replacements } = buildAttackSpace(encoding.words, encoding.fields, task.modifiableFields, substitutions);
    const wordToId = (word) => model.tokenizer.wordToId(word);
    return {
      encoding,
      modifiableWords: findModifiableWords(replacements, encoding.positions, wordToId),
      rng: rng.fork(id),
    };
  })
  .filter(({ modifiableWords }) => modifiableWords.candidateIds.length > 0)
  .sort((a, b) => a.encoding.ids.length - b.encoding.ids.length);

const search = hullSchema.parse({ innerSteps: Number(options["inner-steps"]) });
const strengths = [];
for (let start = 0; start < texts.length; start += 32) {
  const batch = texts.slice(start, start + 32);
  strengths.push(...measureAdversaryStrength({ model, weights: model.weights, device }, batch, search));
}
// If neither changes the prediction, only the entropy term decides.
const changed = strengths.filter(({ searched, random }) => Math.max(searched, random) > 0.05);
const mean = (pick) => strengths.reduce((sum, each) => sum + pick(each), 0) / strengths.length;
console.log(
  JSON.stringify({
    texts: strengths.length,
    winRate: computeWinRate(strengths),
    changed: changed.length,
    winRateIfChanged: computeWinRate(changed),
    searched: mean((each) => each.searched),
    bestOfTen: mean((each) => each.random),
  }),
);
