import { type Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { paperStepCounts } from "../../analysis/consistency.js";
import { analyzeConsistency } from "../../analysis/consistency-of-run.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import { UserError } from "../../errors.js";
import type { Io } from "../io.js";
import { formatHelpExamples } from "../options.js";
import {
  addOutputOptions,
  createWarningPrinter,
  getAnalysisFolder,
  withProgress,
  writeAndPrintAnalysis,
} from "./options.js";

function parseStepCounts(text: string): number[] {
  const counts = text.split(",").map(Number);
  if (counts.every((count) => Number.isInteger(count) && count > 0)) return counts.sort((a, b) => a - b);
  throw new InvalidArgumentError("Expected numbers of steps: 200,600,2000.");
}

export function define(command: Command, io: Io): void {
  addOutputOptions(command)
    .argument("<run>", "a finished run")
    .addOption(
      new Option("--steps <counts>", "over how many first steps, each")
        .argParser(parseStepCounts)
        .default(paperStepCounts, paperStepCounts.join(",")),
    )
    .addHelpText(
      "after",
      `\nRuns of r-drop and rose tell by their own events; others are trained again so far, and watched.\n${formatHelpExamples("temper analyze consistency runs/sst2-rose-seed0", "temper analyze consistency runs/sst2-standard-seed0 --steps 50,100,200")}`,
    )
    .action(async (folder, options) => {
      const runs = await readFinishedRuns([folder]);
      const [run] = runs;
      if (!run || runs.length > 1)
        throw new UserError(`consistency: expected one run, received ${runs.length}; name one of them`);
      const warn = createWarningPrinter(io, options);
      const analysis = await withProgress(io, options, "consistency", "steps", (onStep) =>
        analyzeConsistency(run, { stepCounts: options.steps, warn: warn, onStep }),
      );
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, [folder]), analysis);
    });
}
