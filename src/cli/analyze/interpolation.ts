import { type Command, Option } from "@commander-js/extra-typings";
import { analyzeInterpolation } from "../../analysis/interpolation-of-runs.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import { UserError } from "../../errors.js";
import type { Io } from "../io.js";
import { createIntegerParser, formatHelpExamples, parseNumber } from "../options.js";
import {
  addSampleOptions,
  configureFloat32Runtime,
  createWarningPrinter,
  getAnalysisFolder,
  withProgress,
  writeAndPrintAnalysis,
} from "./options.js";

export function define(command: Command, io: Io): void {
  addSampleOptions(command, 500)
    .argument("<a>", "the run at alpha 0")
    .argument("<b>", "the run at alpha 1")
    .addOption(new Option("--points <count>", "points on the line").argParser(createIntegerParser(2)).default(51))
    .addOption(new Option("--from <alpha>", "where the line begins").argParser(parseNumber).default(-0.5))
    .addOption(new Option("--to <alpha>", "where it ends").argParser(parseNumber).default(1.5))
    .addHelpText(
      "after",
      formatHelpExamples("temper analyze interpolation runs/sst2-rose-seed0 runs/sst2-standard-seed0"),
    )
    .action(async (a, b, options) => {
      const runs = await readFinishedRuns([a, b]);
      const [first, second] = runs;
      if (runs.length !== 2 || !first || !second)
        throw new UserError(`interpolation: expected two runs, received ${runs.length}`);
      const { device } = configureFloat32Runtime(options);
      const warn = createWarningPrinter(io, options);
      const analysis = await withProgress(io, options, "interpolation", "points", (on) =>
        analyzeInterpolation(first, second, {
          ...options,
          examples: options.numExamples,
          device,
          warn: warn,
          onPoint: (done) => on(done, options.points),
        }),
      );
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, [a]), analysis);
    });
}
