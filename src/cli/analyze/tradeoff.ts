import type { Command } from "@commander-js/extra-typings";
import { readAttacked } from "../../analysis/attacked.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import { analyseTradeoff } from "../../analysis/tradeoff.js";
import type { Io } from "../io.js";
import { examples } from "../options.js";
import { finish, folderOf, noticeOf, outputOptions } from "./shared.js";

export function define(command: Command, io: Io): void {
  outputOptions(command)
    .argument("<runs...>", "attacked runs, or folders of them")
    .addHelpText(
      "after",
      examples("temper analyze tradeoff runs", "temper analyze tradeoff runs/imdb-ascc-seed0 runs/imdb-ascc+rift-seed0 --png"),
    )
    .action(async (folders, options) => {
      const notice = noticeOf(io, options);
      const runs = await Promise.all((await readFinishedRuns(folders)).map((run) => readAttacked(run, notice)));
      await finish(io, options, folderOf(options, folders), analyseTradeoff(runs));
    });
}
