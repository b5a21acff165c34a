import type { Command } from "@commander-js/extra-typings";
import { readAttackedRun } from "../../analysis/attacked-runs.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import { analyzeTradeoff } from "../../analysis/tradeoff.js";
import type { Io } from "../io.js";
import { formatHelpExamples } from "../options.js";
import { addOutputOptions, createWarningPrinter, getAnalysisFolder, writeAndPrintAnalysis } from "./options.js";

export function define(command: Command, io: Io): void {
  addOutputOptions(command)
    .argument("<runs...>", "attacked runs, or folders of them")
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper analyze tradeoff runs",
        "temper analyze tradeoff runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0 --png",
      ),
    )
    .action(async (folders, options) => {
      const warn = createWarningPrinter(io, options);
      const runs = await Promise.all((await readFinishedRuns(folders)).map((run) => readAttackedRun(run, warn)));
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, folders), analyzeTradeoff(runs));
    });
}
