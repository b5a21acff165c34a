import type { Command } from "@commander-js/extra-typings";
import { analyzeDistance } from "../../analysis/distance.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
import type { Io } from "../io.js";
import { formatHelpExamples } from "../options.js";
import {
  addDeviceOptions,
  configureFloat32Runtime,
  getAnalysisFolder,
  withProgress,
  writeAndPrintAnalysis,
} from "./options.js";

export function define(command: Command, io: Io): void {
  addDeviceOptions(command)
    .argument("<run...>", "finished runs, or folders of them")
    .option("--by <option>", "the option that the end is plotted against, where runs differ in it", "beta")
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper analyze distance runs/imdb-standard-seed0 runs/imdb-ascc-seed0",
        "temper analyze distance runs --by ascc.beta --png",
      ),
    )
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = configureFloat32Runtime(options);
      const analysis = await withProgress(io, options, "distance", "runs", (on) =>
        analyzeDistance(runs, options.by, device, (done) => on(done, runs.length)),
      );
      await writeAndPrintAnalysis(io, options, getAnalysisFolder(options, folders), analysis);
    });
}
