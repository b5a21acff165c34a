import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Command, Option } from "@commander-js/extra-typings";
import { constraintOptions } from "../attacks/constraints.js";
import { attackNames } from "../attacks/index.js";
import { UserError } from "../errors.js";
import { journalCsv } from "../evaluation/attack-csv.js";
import { writeFileAtomic } from "../files.js";
import { checkLabels } from "../models/load.js";
import { type AttackReport, journalPath, runAttacks } from "../runs/attack.js";
import { parseMethod } from "../runs/config.js";
import { tablePath } from "../runs/read-config.js";
import { openSubstitutions } from "../runs/substitutions.js";
import { type OpenedVictim, openVictim } from "../runs/victim.js";
import { commandLine } from "../shell.js";
import { limitExamples } from "../tasks/sample.js";
import type { Split } from "../tasks/task.js";
import { loadLanguageModelSwaps } from "../text/language-model-swaps.js";
import type { Substitutions } from "../text/substitutions.js";
import { validate } from "../validate.js";
import { printAttackReport } from "./attack-report.js";
import { watchAttacks } from "./attack-watch.js";
import { chooseTask, type TaskChoice } from "./choose-task.js";
import { downloadProgress } from "./download-progress.js";
import { endpointOf, endpointOption } from "./endpoint-options.js";
import type { Io } from "./io.js";
import {
  collect,
  dataOption,
  deviceOption,
  encodingOption,
  examples,
  jsonOption,
  labelOption,
  maxLengthOption,
  precisionOption,
  quietOption,
  realNumber,
  seedOption,
  skipBadRowsOption,
  splitOption,
  taskOption,
  textOption,
  threadsOption,
  wholeNumber,
} from "./options.js";
import { printJson } from "./output.js";

interface AttackVerbOptions extends TaskChoice {
  split?: Split | undefined;
  attack?: readonly string[] | undefined;
  endpoint?: readonly string[] | undefined;
  transfer?: readonly string[] | undefined;
  substitutions?: string | undefined;
  knownSubstitutes?: boolean | undefined;
  languageModelSwaps?: string | undefined;
  examples: number;
  seed: number;
  out?: string | undefined;
  resume?: true | undefined;
  budget?: number | undefined;
  largestShare?: number | undefined;
  keepStopWords?: true | undefined;
  keepPartOfSpeech?: true | undefined;
  pool?: number | undefined;
  cache: boolean;
  csv?: true | undefined;
  json?: true | undefined;
  encoding?: "subword" | "word" | undefined;
  maxLength?: number | undefined;
  device?: string | undefined;
  precision?: "bf16" | "tf32" | "fp32" | undefined;
  threads?: number | undefined;
}

/** Strong for what it costs. */
const usualAttack = "pwws";

export function define(command: Command, io: Io): void {
  const attackOption = new Option(
    "--attack <name[:key=value,…]>",
    `${attackNames.join(", ")}, or the path of a search of your own (.js); may be repeated (default: ${usualAttack})`,
  );
  command
    .argument("<model>", "a run folder, a model's folder, npm:PACKAGE, a hub name, or the address of an endpoint")
    .addOption(attackOption.argParser(collect))
    .option("--substitutions <table>", "words that may stand for words: wordnet, or a JSON table (default: those of the model's run)")
    .option("--known-substitutes", "leave out substitutes that the model reads as unknown words (default: as its run did)")
    .option("--no-known-substitutes", "keep them, whatever its run did")
    .option("--language-model-swaps <file>", "the swaps that a language model allows; genetic keeps to them")
    .addOption(taskOption())
    .addOption(dataOption())
    .addOption(textOption())
    .addOption(labelOption())
    .addOption(skipBadRowsOption())
    .addOption(splitOption())
    .addOption(
      new Option("--examples <count>", "attack a seeded, class-balanced sample of so many").argParser(wholeNumber(1)).default(1000),
    )
    .addOption(seedOption("decides the sample and all that is drawn").default(0))
    .option("--out <folder>", "where the journals go (default: attacks/ in the run's folder)")
    .option("--resume", "go on with the journals in the folder")
    .addOption(new Option("--budget <queries>", "the most queries an example may cost").argParser(wholeNumber(1)))
    .addOption(new Option("--largest-share <share>", "the largest share of a text's words that may change").argParser(realNumber))
    .option("--keep-stop-words", "never change a stop word")
    .option("--keep-part-of-speech", "a substitute must have the word's part of speech")
    .addOption(new Option("--transfer <journal>", "try another model's final texts too; may be repeated").argParser(collect))
    .addOption(new Option("--pool <count>", "searches at once (default: what keeps the model busy)").argParser(wholeNumber(1, 100_000)))
    .option("--no-cache", "neither read scores from the disk nor keep them there")
    .option("--csv", "write OUT/NAME.csv too, in TextAttack's columns")
    .addOption(jsonOption("print the report as JSON"))
    .addOption(encodingOption())
    .addOption(maxLengthOption())
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addOption(endpointOption())
    .addHelpText(
      "after",
      examples(
        "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --substitutions counterfitted_neighbors.json --examples 100",
        "temper attack runs/imdb-rift-seed0 --attack genetic:population=60,iterations=40 --language-model-swaps imdb_test.lm.json",
        "temper attack http://127.0.0.1:8080 --task sst2 --substitutions wordnet --out attacks/endpoint",
        "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --resume",
      ),
    )
    .action((model, options) => attack(io, model, options));
}

async function attack(io: Io, reference: string, options: AttackVerbOptions): Promise<void> {
  const downloads = downloadProgress(io, options.quiet);
  const opened = await openVictim(reference, {
    device: options.device ?? "auto",
    precision: options.precision ?? null,
    threads: options.threads ?? null,
    encoding: options.encoding,
    maxLength: options.maxLength,
    endpoint: endpointOf(options.endpoint),
    onDownload: downloads.onProgress,
  }).finally(downloads.end);
  try {
    const run = opened.local?.run ?? null;
    const substitutions = await substitutionsFor(reference, opened, options);
    const task = await chooseTask(io, opened.local?.model ?? null, run, options);
    if (opened.local) checkLabels(reference, opened.local.model.labels, task.labels, task.name);
    const split = options.split ?? task.reportSplit;
    const all = await task.load(split);
    const out = options.out ?? outFor(reference, run?.folder);
    const watch = watchAttacks(io, {
      quiet: options.quiet,
      resume: commandLine(["temper", ...resumed(process.argv.slice(2))]),
    });
    let report: AttackReport;
    try {
      report = await runAttacks({
        opened,
        task,
        split,
        examples: limitExamples(all, options.examples, options.seed, task.labels.length),
        attacks: (options.attack ?? [usualAttack]).map((text) => parseMethod(text, "--attack")),
        transfer: options.transfer ?? [],
        substitutions,
        languageModel:
          options.languageModelSwaps === undefined ? undefined : await loadLanguageModelSwaps(tablePath(options.languageModelSwaps)),
        constraints: constraintsOf(options),
        seed: options.seed,
        budget: options.budget,
        pool: options.pool,
        cache: options.cache,
        out,
        resume: options.resume === true,
        watch,
      });
    } finally {
      watch.end();
    }
    await save(out, report, options);
    await (options.json ? printJson(io, report) : printAttackReport(io, report, { task: task.name, split, model: reference, out }));
  } finally {
    opened.close();
  }
}

function constraintsOf({ largestShare, keepStopWords, keepPartOfSpeech }: AttackVerbOptions): ReturnType<typeof constraintOptions.parse> {
  return validate(
    constraintOptions,
    {
      ...(largestShare !== undefined && { largestShare }),
      keepStopWords: keepStopWords ?? false,
      keepPartOfSpeech: keepPartOfSpeech ?? false,
    },
    "--largest-share",
  );
}

async function substitutionsFor(reference: string, { local }: OpenedVictim, options: AttackVerbOptions): Promise<Substitutions> {
  const ofRun = local?.run?.config;
  const named = options.substitutions ?? ofRun?.substitutions;
  const known = options.knownSubstitutes ?? ofRun?.knownSubstitutes ?? false;
  if (named) return openSubstitutions(tablePath(named), known, local?.model ?? null);
  throw new UserError(
    `${reference} does not say which words may stand for which: give --substitutions wordnet, or a JSON table {"good": ["great", …], …}`,
  );
}

/** Beside the run that made the model; elsewhere by the model's name. */
function outFor(reference: string, run: string | undefined): string {
  if (run !== undefined) return join(run, "attacks");
  return join(
    "attacks",
    reference
      .replace(/^(https?:\/\/|npm:)/, "")
      .replace(/[^\w.-]+/g, "-")
      .replace(/^[-.]+|-+$/g, ""),
  );
}

/** The same command line with --resume. */
function resumed(argv: readonly string[]): string[] {
  return argv.includes("--resume") ? [...argv] : [...argv, "--resume"];
}

async function save(out: string, report: AttackReport, { csv }: AttackVerbOptions): Promise<void> {
  const command = commandLine(["temper", ...process.argv.slice(2)]);
  await writeFileAtomic(join(out, "report.json"), `${JSON.stringify({ ...report, command }, null, 2)}\n`);
  if (!csv) return;
  for (const name of Object.keys(report.attacks))
    await pipeline(journalCsv(journalPath(out, name)), createWriteStream(join(out, `${name}.csv`)));
}
