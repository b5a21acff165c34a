import { type Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { paperSteps } from "../../analysis/consistency.js";
import { analyseConsistency } from "../../analysis/consistency-of-run.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import { UserError } from "../../errors.js";
import type { Io } from "../io.js";
import { examples } from "../options.js";
import { finish, folderOf, noticeOf, outputOptions, withProgress } from "./shared.js";

function stepCounts(text: string): number[] {
  const counts = text.split(",").map(Number);
  if (counts.every((count) => Number.isInteger(count) && count > 0)) return counts.sort((a, b) => a - b);
  throw new InvalidArgumentError("Expected numbers of steps: 200,600,2000.");
}

export function define(command: Command, io: Io): void {
  outputOptions(command)
    .argument("<run>", "a finished run")
    .addOption(
      new Option("--steps <counts>", "over how many first steps, each").argParser(stepCounts).default(paperSteps, paperSteps.join(",")),
    )
    .addHelpText(
      "after",
      `\nRuns of r-drop and rose tell by their own events; others are trained again so far, and watched.\n${examples("temper analyze consistency runs/sst2-rose-seed0", "temper analyze consistency runs/sst2-standard-seed0 --steps 50,100,200")}`,
    )
    .action(async (folder, options) => {
      const runs = await readFinishedRuns([folder]);
      const [run] = runs;
      if (!run || runs.length > 1) throw new UserError(`consistency: expected one run, received ${runs.length}; name one of them`);
      const notice = noticeOf(io, options);
      const analysis = await withProgress(io, options, "consistency", "steps", (onStep) =>
        analyseConsistency(run, { counts: options.steps, notice, onStep }),
      );
      await finish(io, options, folderOf(options, [folder]), analysis);
    });
}
