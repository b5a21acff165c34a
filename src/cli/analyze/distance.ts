import type { Command } from "@commander-js/extra-typings";
import { analyseDistance } from "../../analysis/distance.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import type { Io } from "../io.js";
import { examples } from "../options.js";
import { computeOptions, finish, folderOf, machineOf, withProgress } from "./shared.js";

export function define(command: Command, io: Io): void {
  computeOptions(command)
    .argument("<run...>", "finished runs, or folders of them")
    .option("--by <option>", "the option that the end is plotted against, where runs differ in it", "beta")
    .addHelpText(
      "after",
      examples(
        "temper analyze distance runs/imdb-standard-seed0 runs/imdb-ascc-seed0",
        "temper analyze distance runs --by ascc.beta --png",
      ),
    )
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = machineOf(options);
      const analysis = await withProgress(io, options, "distance", "runs", (on) =>
        analyseDistance(runs, options.by, device, (done) => on(done, runs.length)),
      );
      await finish(io, options, folderOf(options, folders), analysis);
    });
}
