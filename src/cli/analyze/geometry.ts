import { type Command, Option } from "@commander-js/extra-typings";
import { analyzeGeometry } from "../../analysis/geometry-of-runs.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import type { Io } from "../io.js";
import { createIntegerParser, formatHelpExamples } from "../options.js";
import {
  addSampleOptions,
  configureFloat32Runtime,
  createWarningPrinter,
  getAnalysisFolder,
  withProgress,
  writeAndPrintAnalysis,
} from "./options.js";

export function define(command: Command, io: Io): void {
  // Of three examples, two at least share one of two classes.
  addSampleOptions(command, 500, 3)
    .argument("<run...>", "finished runs of one task, or folders of them")
    .addOption(
      new Option("--perplexity <count>", "about how many neighbours a point has")
        .argParser(createIntegerParser(2, 500))
        .default(30),
    )
    .addOption(new Option("--iterations <count>", "steps of t-SNE").argParser(createIntegerParser(1)).default(750))
    .addHelpText(
      "after",
      formatHelpExamples("temper analyze geometry runs/imdb-standard-seed0 runs/imdb-rift-seed0 --png"),
    )
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = configureFloat32Runtime(options);
      const warn = createWarningPrinter(io, options);
      const analysis = await withProgress(io, options, "geometry", "models", (onModel) =>
        analyzeGeometry(runs, { ...options, examples: options.numExamples, device, warn: warn, onModel }),
      );
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, folders), analysis);
    });
}
