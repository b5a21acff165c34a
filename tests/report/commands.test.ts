import { Command } from "@commander-js/extra-typings";
import { expect, test } from "vitest";
import { addTrainOptions, readTrainConfig } from "../../src/cli/train-options.js";
import { formatAttackCommand, formatTrainCommand } from "../../src/report/commands.js";
import { runConfigSchema } from "../../src/runs/config.js";
import { shellQuote } from "../../src/shell.js";

/** Words of a command line, as a shell would cut it. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'((?:[^']|'\\'')*)'|\S+/g)].map(
    ([whole, inner]) => inner?.replaceAll("'\\''", "'") ?? whole,
  );
}

test.each([
  { model: "tiny" },
  {
    ...{
      model: "it's a model",
      data: "my reviews.csv",
      textColumn: ["title", "body text"],
      label: "stars",
      maxTrainSamples: 720,
      maxValidationSamples: null,
    },
    ...{
      methods: ["ascc:beta=4,innerSteps=3", { rift: { alpha: 0.1 } }],
      tokenization: "word",
      substitutions: "wordnet",
      seed: 7,
      skipBadRows: true,
    },
    train: { epochs: 2, learningRate: 1e-4, maxGradNorm: null, lrScheduler: [1, 0.5], metricForBestModel: "robust-accuracy" },
  },
])("the command of a run makes the same config: %j", async (settings) => {
  const config = runConfigSchema.parse(settings);
  const line = formatTrainCommand(config, "runs/a b");
  const [program, verb, ...args] = wordsOf(line);
  expect([program, verb]).toEqual(["temper", "train"]);
  const options = addTrainOptions(new Command().exitOverride()).parse(args, { from: "user" }).opts();
  expect(options.out).toBe("runs/a b");
  const { methods: method, ...made } = await readTrainConfig(options);
  const { methods: wanted, ...rest } = config;
  expect(made).toEqual(rest);
  expect(method).toEqual(wanted.length > 0 ? ["ascc:beta=4,innerSteps=3", "rift:alpha=0.1"] : []);
});

test("words that a shell would take apart are quoted", () => {
  expect(["plain/path.json", "two words", "it's", "$HOME", ""].map(shellQuote)).toEqual([
    "plain/path.json",
    "'two words'",
    "'it'\\''s'",
    "'$HOME'",
    "''",
  ]);
});

test("the command of an attack tells what its journal does", () => {
  const header = {
    attack: "genetic",
    options: { population: 60 },
    hashes: {},
    settings: { task: "spam", split: "test", budget: 500 },
    seed: 3,
    examples: 200,
  };
  expect(formatAttackCommand(header, "runs/a", "runs/a/attacks/genetic.jsonl", "wordnet")).toBe(
    "temper attack runs/a --attack genetic:population=60 --task spam --split test --substitutions wordnet --query-budget 500 --num-examples 200 --seed 3 --out runs/a/attacks",
  );
});
