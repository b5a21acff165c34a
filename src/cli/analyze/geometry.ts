import { type Command, Option } from "@commander-js/extra-typings";
import { analyseGeometry } from "../../analysis/geometry-of-runs.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import type { Io } from "../io.js";
import { examples, wholeNumber } from "../options.js";
import { finish, folderOf, machineOf, noticeOf, sampleOptions, withProgress } from "./shared.js";

export function define(command: Command, io: Io): void {
  // Of three examples, two at least share one of two classes.
  sampleOptions(command, 500, 3)
    .argument("<run...>", "finished runs of one task, or folders of them")
    .addOption(new Option("--perplexity <count>", "about how many neighbours a point has").argParser(wholeNumber(2, 500)).default(30))
    .addOption(new Option("--iterations <count>", "steps of t-SNE").argParser(wholeNumber(1)).default(750))
    .addHelpText("after", examples("temper analyze geometry runs/imdb-standard-seed0 runs/imdb-rift-seed0 --png"))
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = machineOf(options);
      const notice = noticeOf(io, options);
      const analysis = await withProgress(io, options, "geometry", "models", (onModel) =>
        analyseGeometry(runs, { ...options, device, notice, onModel }),
      );
      await finish(io, options, folderOf(options, folders), analysis);
    });
}
