import type { Command } from "@commander-js/extra-typings";
import { analyzeAblation } from "../../analysis/ablation.js";
import { readAttackedRun } from "../../analysis/attacked-runs.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import type { Io } from "../io.js";
import { formatHelpExamples } from "../options.js";
import { addOutputOptions, createWarningPrinter, getAnalysisFolder, writeAndPrintAnalysis } from "./options.js";

export function define(command: Command, io: Io): void {
  addOutputOptions(command)
    .argument("<runs...>", "runs that differ in one option, or folders of them")
    .requiredOption("--by <option>", "a method's option (alpha, rift.alpha, keep) or a setting (train.learningRate)")
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper analyze ablation runs/alpha --by rift.alpha",
        "temper analyze ablation runs/gamma --by gamma --json",
      ),
    )
    .action(async (folders, options) => {
      const warn = createWarningPrinter(io, options);
      const runs = await Promise.all((await readFinishedRuns(folders)).map((run) => readAttackedRun(run, warn)));
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, folders), analyzeAblation(runs, options.by));
    });
}
