import { join } from "node:path";
import { formatCount, formatNumber, formatPercent } from "../format.js";
import { runFiles } from "../runs/run-folder.js";
import type { TrainingCallbacks } from "../train/index.js";
import { TensorBoardWriter } from "../train/tensorboard.js";
import type { Io } from "./io.js";
import { createProgress, type Progress } from "./progress.js";

export interface TrainProgress {
  readonly callbacks: TrainingCallbacks;
  /** Examples trained on a second, by the updates' own time; 0 before the first. */
  examplesPerSecond(): number;
  end(): void;
}

/** Shows a run on stderr: a bar for its steps, a line an evaluation, and other long work before and after. */
export function createTrainProgress(
  io: Io,
  options: { quiet?: true | undefined; tensorboard?: string | undefined; onStart?: () => void },
): TrainProgress {
  const { quiet } = options;
  const open = (label: string, total: number, unit: string, start = 0): Progress =>
    createProgress({ label, total, unit, start, quiet, stream: io.stderr });
  let bar: Progress | undefined;
  let other: { label: string; progress: Progress } | undefined;
  let board: TensorBoardWriter | undefined;
  let [step, examples, seconds, loss] = [0, 0, 0, Number.NaN];
  const rate = (): number => (seconds > 0 ? examples / seconds : 0);
  const facts = () => ({ loss, "examples/s": formatNumber(rate(), 3) });
  const endOther = (): void => {
    other?.progress.end();
    other = undefined;
  };
  const note = (text: string): void => {
    if (bar) bar.printLine(text);
    else if (!quiet) io.stderr.write(`${text}\n`);
  };
  const watch: TrainingCallbacks = {
    onStart(run) {
      options.onStart?.();
      endOther();
      if (options.tensorboard !== undefined)
        board = new TensorBoardWriter(join(options.tensorboard, runFiles.tensorboard), run.step);
      if (run.step > 0) note(`going on after step ${formatCount(run.step)} of ${formatCount(run.steps)}`);
      bar = open("train", run.steps, "steps", run.step);
    },
    onStep(report) {
      step = report.step;
      examples += report.examples;
      seconds += report.seconds;
      loss = report.loss;
      bar?.update(step, facts());
      if (step === report.totalSteps) bar?.end();
    },
    onProgress(label, done, total) {
      if (label === "select") return bar?.update(step, { ...facts(), evaluating: formatPercent(done / total, 0) });
      if (label === "report") bar?.end();
      if (other?.label !== label) {
        endOther();
        other = { label, progress: open(label, total, "texts") };
      }
      other.progress.update(done);
      // The next pass under the same name has a clock of its own.
      if (done === total) endOther();
    },
    onEvaluation(at, metrics, best) {
      const shown = Object.entries(metrics).map(([name, value]) => `${name} ${formatNumber(value, 3)}`);
      note(`step ${formatCount(at)}: ${shown.join(", ")}${best ? " (the best so far)" : ""}`);
    },
    onWarning: (message) => note(`note: ${message}`),
    onEvent: (event) => board?.writeEvent(event),
  };
  return {
    callbacks: watch,
    examplesPerSecond: rate,
    end() {
      bar?.end();
      endOther();
      board?.close();
    },
  };
}
