import type { Command } from "@commander-js/extra-typings";
import { calibrate, calibrateRequestSchema } from "../../actions/calibrate.js";
import { formatCount, formatNumber, formatPercent } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption, runtimeFlags } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "The threshold is stored in the run folder. evaluate then shows recall and false alarms at it, and serve flags texts.";
export const examples = [
  "temper calibrate runs/spam-standard-seed0 --benign ham.txt --fpr 0.01",
  "temper calibrate runs/spam-standard-seed0 --benign ham.txt --fpr 0.05 --windows 32 --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = calibrateRequestSchema;
  const withRun = command
    .argument("<run>", shape.model.description)
    .requiredOption("--benign <file>", shape.benign.description);
  addOptions(withRun, shape, {
    textColumn: "<column>",
    fpr: "<rate>",
    positiveLabel: "<label>",
    windows: "<words>",
    ...runtimeFlags,
  })
    .option("--json", "print threshold, fpr and examples as JSON")
    .addOption(quietOption())
    .action(async (model, { json, quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet, "texts");
      const calibration = await calibrate({ model, ...request }, callbacks).finally(callbacks.end);
      if (json) return printJson(io, calibration);
      const { threshold, fpr, examples: count, positiveLabel } = calibration;
      await write(
        io.stdout,
        `A text is flagged as ${positiveLabel} if its score is above ${formatNumber(threshold, 6)}. On average ` +
          `over samples of ${formatCount(count)} texts like these, at most ${formatPercent(fpr)} of further benign texts are ` +
          "flagged. With this sample, it can be more.\n",
      );
    });
}
