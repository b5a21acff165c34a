import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatShare } from "../format.js";
import type { Model } from "../models/model.js";
import { evaluateSplit } from "../runs/evaluate.js";
import { type AdvglueReport, evaluateAdvglue } from "../runs/evaluate-advglue.js";
import type { Machine } from "../runs/placement.js";
import type { SplitReport } from "../runs/results.js";
import { runOfModel } from "../runs/run-of-model.js";
import type { Split } from "../tasks/task.js";
import { free } from "../tensor/index.js";
import { chooseTask, type TaskChoice } from "./choose-task.js";
import { type ClassifierOptions, loadClassifier } from "./classifier.js";
import { type Io, write } from "./io.js";
import {
  dataOption,
  deviceOption,
  examples,
  jsonOption,
  labelOption,
  limitOption,
  precisionOption,
  quietOption,
  seedOption,
  skipBadRowsOption,
  splitOption,
  taskOption,
  textOption,
  threadsOption,
} from "./options.js";
import { printJson, table } from "./output.js";
import { openProgress } from "./progress.js";
import { formatInterval, printReport } from "./report.js";

interface EvaluateVerbOptions extends ClassifierOptions, TaskChoice {
  split?: Split | undefined;
  limit?: number | undefined;
  seed?: number | undefined;
  json?: true | undefined;
}

export function define(command: Command, io: Io): void {
  command
    .argument("<model>", "a run folder, its model/, npm:PACKAGE or a hub name")
    .addOption(taskOption())
    .addOption(dataOption())
    .addOption(textOption())
    .addOption(labelOption())
    .addOption(skipBadRowsOption())
    .addOption(splitOption())
    .addOption(limitOption("evaluate on a seeded, class-balanced sample of so many examples"))
    .addOption(seedOption("which sample --limit takes"))
    .addOption(jsonOption("print task, split, examples, accuracy, interval and metrics as JSON"))
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      examples(
        "temper evaluate runs/sst2-standard-seed0 --task sst2",
        "temper evaluate runs/sst2-standard-seed0 --task advglue",
        "temper evaluate runs/reviews-standard-seed0 --data more-reviews.csv --text review --label stars --json",
      ),
    )
    .action((model, options) => evaluate(io, model, options));
}

async function evaluate(io: Io, reference: string, options: EvaluateVerbOptions): Promise<void> {
  const { model, machine } = await loadClassifier(io, reference, options);
  try {
    if (options.task === "advglue") await againstAdversary(io, model, machine, options);
    else await onTask(io, model, machine, options);
  } finally {
    free(model.weights);
  }
}

async function onTask(io: Io, model: Model, machine: Machine, options: EvaluateVerbOptions): Promise<void> {
  const task = await chooseTask(io, model, await runOfModel(model.folder), options);
  const report = await withProgress(io, options, (onProgress) =>
    evaluateSplit(model, task, options.split ?? task.reportSplit, machine, { ...options, onProgress }),
  );
  if (options.json) return printJson(io, { task: task.name, ...report, labels: task.labels });
  await printReport(io, task.name, report);
  await write(io.stdout, `\n${confusionTable(io, report, task.labels)}\n`);
}

async function againstAdversary(io: Io, model: Model, machine: Machine, options: EvaluateVerbOptions): Promise<void> {
  const report: AdvglueReport = await withProgress(io, options, (onProgress) =>
    evaluateAdvglue(model, options.data, machine, { ...options, onProgress }),
  );
  if (options.json) {
    const { task, glue, advglue, drop } = report;
    return printJson(io, { task: "advglue", part: task, drop, glue: { task, ...glue }, advglue: { task: `advglue:${task}`, ...advglue } });
  }
  const row = (name: string, { examples: count, accuracy, interval }: SplitReport): string[] => [
    name,
    formatCount(count),
    formatShare(accuracy),
    formatInterval(interval),
  ];
  const rows = [row(`GLUE ${report.task}`, report.glue), row(`AdvGLUE ${report.task}`, report.advglue)];
  const head = ["dev set", "examples", "accuracy", "95 % interval"];
  await write(io.stdout, `${table(io.stdout, rows, { head, numeric: [1, 2] })}\n`);
  await write(io.stdout, `the adversarial texts cost ${(report.drop * 100).toFixed(1)} points\n`);
}

async function withProgress<T>(
  io: Io,
  { quiet }: EvaluateVerbOptions,
  work: (onProgress: (done: number, total: number) => void) => Promise<T>,
): Promise<T> {
  let progress: ReturnType<typeof openProgress> | undefined;
  try {
    return await work((done, total) => {
      progress ??= openProgress({ label: "evaluate", total, unit: "texts", quiet, stream: io.stderr });
      progress.update(done);
      if (done < total) return;
      progress.end();
      progress = undefined;
    });
  } finally {
    progress?.end();
  }
}

function confusionTable(io: Io, { confusion }: SplitReport, labels: readonly string[]): string {
  const rows = confusion.map((row, i) => [labels[i] ?? String(i), ...row.map((count) => formatCount(count))]);
  return table(io.stdout, rows, { head: ["label \\ predicted", ...labels], numeric: labels.map((_, i) => i + 1) });
}
