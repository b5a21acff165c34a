import type { Command } from "@commander-js/extra-typings";
import { calibrate, calibrateRequestSchema } from "../../actions/calibrate.js";
import { formatCount, formatNumber, formatPercent } from "../../base/format.js";
import type { Io } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { createCallbacks } from "../progress.js";
import { runWork } from "../work.js";

export const note =
  "The threshold is stored in the run folder. evaluate then shows recall and false alarms at it, and serve flags texts.\n" +
  "The rate holds on average over samples of benign texts. With one sample, it can be more.";
export const examples = [
  "temper calibrate runs/spam-standard-seed0 --benign ham.txt --fpr 0.01",
  "temper calibrate runs/spam-standard-seed0 --benign ham.txt --fpr 0.05 --windows 32 --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = calibrateRequestSchema;
  const withRun = command
    .argument("<run>", shape.model.description)
    .requiredOption("--benign <file>", shape.benign.description);
  addOptions(withRun, shape, ["model", "benign"])
    .option("--json", "print threshold, fpr and examples as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet, "texts"), json },
        (callbacks) => calibrate({ model, ...request }, callbacks),
        ({ threshold, fpr, examples: count, positiveLabel }) =>
          `A text is flagged as ${positiveLabel} if its score is above ${formatNumber(threshold, 6)}. On average ` +
          `over samples of ${formatCount(count)} texts like these, at most ${formatPercent(fpr)} of further benign texts are ` +
          "flagged. With this sample, it can be more.\n",
      ),
    );
}
