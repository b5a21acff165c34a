import { formatCount, formatNumber, formatPercent } from "../format.js";
import type { TrainingCallbacks } from "../train/index.js";
import type { Io } from "./io.js";
import { createCallbacks, createProgress, type Progress } from "./progress.js";

/**
 * Shows a training on stderr: a bar for the steps, a line per evaluation, and bars for other long
 * work.
 */
export function createTrainProgress(io: Io, options: { quiet?: boolean | undefined; onStart?: () => void }) {
  const { quiet } = options;
  const other = createCallbacks(io, quiet);
  let steps: Progress | undefined;
  let [step, examples, seconds, loss] = [0, 0, 0, Number.NaN];
  const examplesPerSecond = (): number => (seconds > 0 ? examples / seconds : 0);
  const listDetails = () => ({ loss, "examples/s": formatNumber(examplesPerSecond(), 3) });
  const printLine = (text: string): void => (steps ?? other).printLine(text);
  const callbacks: TrainingCallbacks = {
    onStart({ step: done, totalSteps }) {
      options.onStart?.();
      other.end();
      if (done > 0) printLine(`resuming after step ${formatCount(done)} of ${formatCount(totalSteps)}`);
      steps = createProgress({
        label: "train",
        total: totalSteps,
        unit: "steps",
        start: done,
        quiet,
        stream: io.stderr,
      });
    },
    onStep(report) {
      step = report.step;
      examples += report.examples;
      seconds += report.seconds;
      loss = report.loss;
      steps?.update(step, listDetails());
      if (step === report.totalSteps) steps?.end();
    },
    onProgress(stage, done, total) {
      // Training waits during a validation, so the bar of the steps shows it.
      if (stage === "validation") steps?.update(step, { ...listDetails(), evaluating: formatPercent(done / total, 0) });
      else other.update(stage, done, total);
    },
    onEvaluation(at, metrics, isBest) {
      const values = Object.entries(metrics).map(([name, value]) => `${name} ${formatNumber(value, 3)}`);
      printLine(`step ${formatCount(at)}: ${values.join(", ")}${isBest ? " (best so far)" : ""}`);
    },
    onWarning: (message) => printLine(`warning: ${message}`),
  };
  return {
    callbacks,
    /** Training examples per second of optimizer steps; 0 before the first step. */
    examplesPerSecond,
    end(): void {
      steps?.end();
      other.end();
    },
  };
}
