import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatPercent } from "../../format.js";
import type { Model } from "../../models/model.js";
import { evaluateSplit } from "../../runs/evaluate.js";
import { type AdvglueResult, evaluateAdvglue } from "../../runs/evaluate-advglue.js";
import type { EvaluationResult } from "../../runs/results.js";
import { findTrainingRun } from "../../runs/run-of-model.js";
import type { RuntimeConfig } from "../../runs/runtime-config.js";
import type { Split } from "../../tasks/task.js";
import { free } from "../../tensor/index.js";
import { chooseTask, type TaskCommandOptions } from "../choose-task.js";
import { type Io, write } from "../io.js";
import { type ClassifierOptions, loadClassifier } from "../load-classifier.js";
import {
  dataOption,
  deviceOption,
  formatHelpExamples,
  jsonOption,
  labelColumnOption,
  maxSamplesOption,
  precisionOption,
  quietOption,
  seedOption,
  skipBadRowsOption,
  splitOption,
  taskOption,
  textColumnOption,
  threadsOption,
} from "../options.js";
import { formatTable, printJson } from "../output.js";
import { formatInterval, printEvaluation } from "../print-evaluation.js";
import { createProgress } from "../progress.js";

interface EvaluateCommandOptions extends ClassifierOptions, TaskCommandOptions {
  split?: Split | undefined;
  maxSamples?: number | undefined;
  seed?: number | undefined;
  json?: true | undefined;
}

export function define(command: Command, io: Io): void {
  command
    .argument("<model>", "a run folder, its model/, npm:PACKAGE or a hub name")
    .addOption(taskOption())
    .addOption(dataOption())
    .addOption(textColumnOption())
    .addOption(labelColumnOption())
    .addOption(skipBadRowsOption())
    .addOption(splitOption())
    .addOption(maxSamplesOption("--max-samples", "evaluate on a seeded, class-balanced sample of so many examples"))
    .addOption(seedOption("which sample --max-samples takes"))
    .addOption(jsonOption("print task, split, examples, accuracy, interval and metrics as JSON"))
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper evaluate runs/sst2-standard-seed0 --task sst2",
        "temper evaluate runs/sst2-standard-seed0 --task advglue",
        "temper evaluate runs/reviews-standard-seed0 --data more-reviews.csv --text-column review --label-column stars --json",
      ),
    )
    .action((model, options) => evaluate(io, model, options));
}

async function evaluate(io: Io, reference: string, options: EvaluateCommandOptions): Promise<void> {
  const { model, machine } = await loadClassifier(io, reference, options);
  try {
    if (options.task === "advglue") await evaluateOnAdvglue(io, model, machine, options);
    else await evaluateOnTask(io, model, machine, options);
  } finally {
    free(model.weights);
  }
}

async function evaluateOnTask(
  io: Io,
  model: Model,
  machine: RuntimeConfig,
  options: EvaluateCommandOptions,
): Promise<void> {
  const task = await chooseTask(io, model, await findTrainingRun(model.folder), options);
  const report = await withProgress(io, options, (onProgress) =>
    evaluateSplit(model, task, options.split ?? "test", machine, { ...options, onProgress }),
  );
  if (options.json) return printJson(io, { task: task.name, ...report, labels: task.labels });
  await printEvaluation(io, task.name, report);
  await write(io.stdout, `\n${formatConfusionMatrix(io, report, task.labels)}\n`);
}

async function evaluateOnAdvglue(
  io: Io,
  model: Model,
  machine: RuntimeConfig,
  options: EvaluateCommandOptions,
): Promise<void> {
  const report: AdvglueResult = await withProgress(io, options, (onProgress) =>
    evaluateAdvglue(model, options.data, machine, { ...options, onProgress }),
  );
  if (options.json) {
    const { task, glue, advglue, drop } = report;
    return printJson(io, {
      task: "advglue",
      part: task,
      drop,
      glue: { task, ...glue },
      advglue: { task: `advglue:${task}`, ...advglue },
    });
  }
  const row = (name: string, { examples: count, accuracy, interval }: EvaluationResult): string[] => [
    name,
    formatCount(count),
    formatPercent(accuracy),
    formatInterval(interval),
  ];
  const rows = [row(`GLUE ${report.task}`, report.glue), row(`AdvGLUE ${report.task}`, report.advglue)];
  const head = ["dev set", "examples", "accuracy", "95 % interval"];
  await write(io.stdout, `${formatTable(io.stdout, rows, { head, numeric: [1, 2] })}\n`);
  await write(io.stdout, `the adversarial texts cost ${(report.drop * 100).toFixed(1)} points\n`);
}

async function withProgress<T>(
  io: Io,
  { quiet }: EvaluateCommandOptions,
  work: (onProgress: (done: number, total: number) => void) => Promise<T>,
): Promise<T> {
  let progress: ReturnType<typeof createProgress> | undefined;
  try {
    return await work((done, total) => {
      progress ??= createProgress({ label: "evaluate", total, unit: "texts", quiet, stream: io.stderr });
      progress.update(done);
      if (done < total) return;
      progress.end();
      progress = undefined;
    });
  } finally {
    progress?.end();
  }
}

function formatConfusionMatrix(
  io: Io,
  { confusionMatrix: confusion }: EvaluationResult,
  labels: readonly string[],
): string {
  const rows = confusion.map((row, i) => [labels[i] ?? String(i), ...row.map((count) => formatCount(count))]);
  return formatTable(io.stdout, rows, {
    head: ["label \\ predicted", ...labels],
    numeric: labels.map((_, i) => i + 1),
  });
}
