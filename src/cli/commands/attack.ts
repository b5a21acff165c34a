import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Command, Option } from "@commander-js/extra-typings";
import { constraintsSchema } from "../../attacks/constraints.js";
import { attackNames } from "../../attacks/index.js";
import { UserError } from "../../errors.js";
import { formatJournalCsv } from "../../evaluation/attack-csv.js";
import { writeFileAtomic } from "../../files.js";
import { checkLabels } from "../../models/load.js";
import { type AttackSuiteResult, getJournalPath, runAttackSuite } from "../../runs/attack-suite.js";
import { parseMethodSpec } from "../../runs/config.js";
import { loadSubstitutionsForModel } from "../../runs/load-substitutions.js";
import { type LoadedVictim, loadVictim } from "../../runs/load-victim.js";
import { resolveTablePath } from "../../runs/read-config.js";
import { formatCommandLine } from "../../shell.js";
import { sampleExamples } from "../../tasks/sample.js";
import type { Split } from "../../tasks/task.js";
import { loadLmConstraint } from "../../text/lm-constraint.js";
import type { Substitutions } from "../../text/substitutions.js";
import { validate } from "../../validate.js";
import { createAttackProgress } from "../attack-progress.js";
import { chooseTask, type TaskCommandOptions } from "../choose-task.js";
import { createDownloadProgress } from "../download-progress.js";
import { endpointOption, parseEndpointOptions } from "../endpoint-options.js";
import type { Io } from "../io.js";
import {
  appendValue,
  createIntegerParser,
  dataOption,
  deviceOption,
  formatHelpExamples,
  jsonOption,
  labelColumnOption,
  maxLengthOption,
  parseNumber,
  precisionOption,
  quietOption,
  seedOption,
  skipBadRowsOption,
  splitOption,
  taskOption,
  textColumnOption,
  threadsOption,
  tokenizationOption,
} from "../options.js";
import { printJson } from "../output.js";
import { printAttackSummary } from "../print-attack-summary.js";

interface AttackCommandOptions extends TaskCommandOptions {
  split?: Split | undefined;
  attack?: readonly string[] | undefined;
  endpoint?: readonly string[] | undefined;
  transferFrom?: readonly string[] | undefined;
  substitutions?: string | undefined;
  inVocabSubstitutes?: boolean | undefined;
  lmConstraint?: string | undefined;
  numExamples: number;
  seed: number;
  out?: string | undefined;
  resume?: true | undefined;
  queryBudget?: number | undefined;
  maxModificationRate?: number | undefined;
  protectStopWords?: true | undefined;
  matchPartOfSpeech?: true | undefined;
  concurrency?: number | undefined;
  cache: boolean;
  csv?: true | undefined;
  json?: true | undefined;
  tokenization?: "subword" | "word" | undefined;
  maxLength?: number | undefined;
  device?: string | undefined;
  precision?: "bf16" | "tf32" | "fp32" | undefined;
  threads?: number | undefined;
}

/** Strong for what it costs. */
const defaultAttack = "pwws";

export function define(command: Command, io: Io): void {
  const attackOption = new Option(
    "--attack <name[:key=value,…]>",
    `${attackNames.join(", ")}, or the path of a search of your own (.js); may be repeated (default: ${defaultAttack})`,
  );
  command
    .argument("<model>", "a run folder, a model's folder, npm:PACKAGE, a hub name, or the address of an endpoint")
    .addOption(attackOption.argParser(appendValue))
    .option(
      "--substitutions <table>",
      "words that may stand for words: wordnet, or a JSON table (default: those of the model's run)",
    )
    .option(
      "--in-vocab-substitutes",
      "leave out substitutes that the model reads as unknown words (default: as its run did)",
    )
    .option("--no-in-vocab-substitutes", "keep them, whatever its run did")
    .option("--lm-constraint <file>", "the swaps that a language model allows; genetic keeps to them")
    .addOption(taskOption())
    .addOption(dataOption())
    .addOption(textColumnOption())
    .addOption(labelColumnOption())
    .addOption(skipBadRowsOption())
    .addOption(splitOption())
    .addOption(
      new Option("--num-examples <count>", "attack a seeded, class-balanced sample of so many")
        .argParser(createIntegerParser(1))
        .default(1000),
    )
    .addOption(seedOption("decides the sample and all that is drawn").default(0))
    .option("--out <folder>", "where the journals go (default: attacks/ in the run's folder)")
    .option("--resume", "go on with the journals in the folder")
    .addOption(
      new Option("--query-budget <queries>", "the most queries an example may cost").argParser(createIntegerParser(1)),
    )
    .addOption(
      new Option("--max-modification-rate <share>", "the largest share of a text's words that may change").argParser(
        parseNumber,
      ),
    )
    .option("--protect-stop-words", "never change a stop word")
    .option("--match-part-of-speech", "a substitute must have the word's part of speech")
    .addOption(
      new Option("--transfer-from <journal>", "try another model's final texts too; may be repeated").argParser(
        appendValue,
      ),
    )
    .addOption(
      new Option("--concurrency <count>", "searches at once (default: what keeps the model busy)").argParser(
        createIntegerParser(1, 100_000),
      ),
    )
    .option("--no-cache", "neither read scores from the disk nor keep them there")
    .option("--csv", "write OUT/NAME.csv too, in TextAttack's columns")
    .addOption(jsonOption("print the report as JSON"))
    .addOption(tokenizationOption())
    .addOption(maxLengthOption())
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addOption(endpointOption())
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --substitutions counterfitted_neighbors.json --num-examples 100",
        "temper attack runs/imdb-rift-seed0 --attack genetic:population=60,iterations=40 --lm-constraint imdb_test.lm.json",
        "temper attack http://127.0.0.1:8080 --task sst2 --substitutions wordnet --out attacks/endpoint",
        "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --resume",
      ),
    )
    .action((model, options) => attack(io, model, options));
}

async function attack(io: Io, reference: string, options: AttackCommandOptions): Promise<void> {
  const downloads = createDownloadProgress(io, options.quiet);
  const loadedVictim = await loadVictim(reference, {
    device: options.device ?? "auto",
    precision: options.precision ?? null,
    threads: options.threads ?? null,
    tokenization: options.tokenization,
    maxLength: options.maxLength,
    endpoint: parseEndpointOptions(options.endpoint),
    onDownload: downloads.onProgress,
  }).finally(downloads.end);
  try {
    const run = loadedVictim.local?.run ?? null;
    const substitutions = await loadAttackSubstitutions(reference, loadedVictim, options);
    const task = await chooseTask(io, loadedVictim.local?.model ?? null, run, options);
    if (loadedVictim.local) checkLabels(reference, loadedVictim.local.model.labels, task.labels, task.name);
    const split = options.split ?? "test";
    const all = await task.load(split);
    const out = options.out ?? getDefaultOutFolder(reference, run?.folder);
    const progress = createAttackProgress(io, {
      quiet: options.quiet,
      resume: formatCommandLine(["temper", ...addResumeFlag(process.argv.slice(2))]),
    });
    let report: AttackSuiteResult;
    try {
      report = await runAttackSuite({
        loadedVictim: loadedVictim,
        task,
        split,
        examples: sampleExamples(all, options.numExamples, options.seed, task.labels.length),
        attacks: (options.attack ?? [defaultAttack]).map((text) => parseMethodSpec(text, "--attack")),
        transferFrom: options.transferFrom ?? [],
        substitutions,
        languageModel:
          options.lmConstraint === undefined
            ? undefined
            : await loadLmConstraint(resolveTablePath(options.lmConstraint)),
        constraints: parseConstraints(options),
        seed: options.seed,
        queryBudget: options.queryBudget,
        concurrency: options.concurrency,
        cache: options.cache,
        out,
        resume: options.resume === true,
        callbacks: progress,
      });
    } finally {
      progress.end();
    }
    await saveResults(out, report, options);
    await (options.json
      ? printJson(io, report)
      : printAttackSummary(io, report, { task: task.name, split, model: reference, out }));
  } finally {
    loadedVictim.close();
  }
}

function parseConstraints({
  maxModificationRate,
  protectStopWords,
  matchPartOfSpeech,
}: AttackCommandOptions): ReturnType<typeof constraintsSchema.parse> {
  return validate(
    constraintsSchema,
    {
      ...(maxModificationRate !== undefined && { maxModificationRate }),
      protectStopWords: protectStopWords ?? false,
      matchPartOfSpeech: matchPartOfSpeech ?? false,
    },
    "--max-modification-rate",
  );
}

async function loadAttackSubstitutions(
  reference: string,
  { local }: LoadedVictim,
  options: AttackCommandOptions,
): Promise<Substitutions> {
  const ofRun = local?.run?.config;
  const named = options.substitutions ?? ofRun?.substitutions;
  const known = options.inVocabSubstitutes ?? ofRun?.inVocabSubstitutes ?? false;
  if (named) return loadSubstitutionsForModel(resolveTablePath(named), known, local?.model ?? null);
  throw new UserError(
    `${reference} does not say which words may stand for which: give --substitutions wordnet, or a JSON table {"good": ["great", …], …}`,
  );
}

/** Beside the run that made the model; elsewhere by the model's name. */
function getDefaultOutFolder(reference: string, run: string | undefined): string {
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
function addResumeFlag(argv: readonly string[]): string[] {
  return argv.includes("--resume") ? [...argv] : [...argv, "--resume"];
}

async function saveResults(out: string, report: AttackSuiteResult, { csv }: AttackCommandOptions): Promise<void> {
  const command = formatCommandLine(["temper", ...process.argv.slice(2)]);
  await writeFileAtomic(join(out, "report.json"), `${JSON.stringify({ ...report, command }, null, 2)}\n`);
  if (!csv) return;
  for (const name of Object.keys(report.attacks))
    await pipeline(formatJournalCsv(getJournalPath(out, name)), createWriteStream(join(out, `${name}.csv`)));
}
