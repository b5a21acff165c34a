import type { TemperEvent } from "../base/events.js";
import { formatCount, formatNumber, formatPercent } from "../base/format.js";
import type { Io } from "./io.js";
import { createCallbacks, createProgress, type Progress } from "./progress.js";

export function createTrainProgress(io: Io, options: { quiet?: boolean | undefined; onStart?: () => void }) {
  const { quiet } = options;
  const other = createCallbacks(io, quiet);
  let steps: Progress | undefined;
  let [step, examples, seconds, loss] = [0, 0, 0, Number.NaN];
  // A GPU has no loss to show before the first one is read from it.
  const listDetails = () => ({ ...(!Number.isNaN(loss) && { loss }) });
  const printLine = (text: string): void => (steps ?? other).printLine(text);
  const start = ({ step: done, totalSteps: total }: Extract<TemperEvent, { type: "start" }>): void => {
    options.onStart?.();
    other.end();
    if (done > 0) printLine(`resuming after step ${formatCount(done)} of ${formatCount(total)}`);
    steps = createProgress({
      label: "train",
      total,
      unit: "steps",
      start: done,
      quiet,
      stream: io.stderr,
      silence: io.silence,
    });
  };
  const onEvent = (event: TemperEvent): void => {
    if (event.type === "start") start(event);
    else if (event.type === "step") {
      step = event.step;
      examples += event.examples;
      seconds += event.seconds;
      loss = event.loss;
      steps?.update(step, listDetails());
      if (step === event.totalSteps) steps?.end();
    } else if (event.type === "progress" && event.stage === "validation") {
      // Training waits during a validation, so the bar of the steps shows it.
      steps?.update(step, { ...listDetails(), evaluating: formatPercent(event.done / event.total, 0) });
    } else if (event.type === "evaluation") {
      const values = Object.entries(event.metrics).map(([name, value]) => `${name} ${formatNumber(value, 3)}`);
      printLine(`step ${formatCount(event.step)}: ${values.join(", ")}${event.isBest ? " (best so far)" : ""}`);
    } else if (event.type === "warning") printLine(`warning: ${event.message}`);
    else other.onEvent(event);
  };
  return {
    onEvent,
    /** Training examples per second of optimizer steps; 0 before the first step. */
    examplesPerSecond: (): number => (seconds > 0 ? examples / seconds : 0),
    end(): void {
      steps?.end();
      other.end();
    },
  };
}
