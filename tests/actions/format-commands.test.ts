import { Command } from "@commander-js/extra-typings";
import { expect, test } from "vitest";
import { attackRequestSchema } from "../../src/actions/attack/attack-request.js";
import { formatAttackCommand, formatAttackCommands } from "../../src/actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../../src/actions/train/format-train-command.js";
import { shellQuote } from "../../src/base/shell.js";
import { addTrainOptions, readTrainRun } from "../../src/cli/commands/train.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import type { RunConfigInput } from "../../src/settings/config.js";
import { resolveRun, userModules } from "../../src/settings/read-config.js";
import { attackResult, writeRun } from "../report/run-folder.js";
import { temporaryFolder } from "../temporary.js";

/** Splits a command line like a shell. */
function splitWords(line: string): string[] {
  return [...line.matchAll(/'((?:[^']|'\\'')*)'|\S+/g)].map(
    ([whole, inner]) => inner?.replaceAll("'\\''", "'") ?? whole,
  );
}

const configs: readonly RunConfigInput[] = [
  { model: "tiny" },
  {
    ...{
      model: "it's a model",
      data: "my reviews.csv",
      textColumn: ["title", "body text"],
      labelColumn: "stars",
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
    train: {
      epochs: 2,
      learningRate: 1e-4,
      maxGradNorm: null,
      lrScheduler: [1, 0.5],
      metricForBestModel: "robust-accuracy",
    },
  },
];

test.each(configs)("the command of a run creates the same config: %j", async (settings) => {
  const { config } = await resolveRun(settings, userModules);
  const line = formatTrainCommand({ config, folder: "runs/a b" });
  const [program, command, ...args] = splitWords(line);
  expect([program, command]).toEqual(["temper", "train"]);
  const options = addTrainOptions(new Command().exitOverride()).parse(args, { from: "user" }).opts();
  expect(options.out).toBe("runs/a b");
  expect((await readTrainRun(options)).config).toEqual(config);
});

test("words that a shell would split are quoted", () => {
  expect(["plain/path.json", "two words", "it's", "$HOME", ""].map(shellQuote)).toEqual([
    "plain/path.json",
    "'two words'",
    "'it'\\''s'",
    "'$HOME'",
    "''",
  ]);
});

test("the command of an attack has every setting of the request that is not the default", () => {
  const request = {
    model: "runs/a",
    attacks: ["genetic:population=60", "pwws"],
    textColumn: ["title", "body"],
    inVocabSubstitutes: false,
    queryBudget: 500,
    numExamples: 200,
    protectStopWords: true,
    cache: false,
    seed: 3,
    endpoint: { timeout: 9, headers: { authorization: "secret" } },
  };
  expect(formatAttackCommand(attackRequestSchema.parse(request))).toBe(
    "temper attack runs/a --attack genetic:population=60 --attack pwws --seed 3 --text-column title --text-column body " +
      "--num-examples 200 --protect-stop-words --query-budget 500 --no-in-vocab-substitutes --no-cache " +
      "--endpoint timeout=9",
  );
});

test("attacks of earlier calls are repeated by their journals", async () => {
  const folder = temporaryFolder();
  const run = await RunFolder.open(
    await writeRun(folder, { attacks: { pwws: [attackResult("mail", "buy it", "failed")] } }),
  );
  expect(formatAttackCommands(run, await run.attacks())).toEqual([
    `temper attack ${folder} --attack pwws --task spam --num-examples 1`,
  ]);
});
