import type { Command } from "@commander-js/extra-typings";
import { analyseAblation } from "../../analysis/ablation.js";
import { readAttacked } from "../../analysis/attacked.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import type { Io } from "../io.js";
import { examples } from "../options.js";
import { finish, folderOf, noticeOf, outputOptions } from "./shared.js";

export function define(command: Command, io: Io): void {
  outputOptions(command)
    .argument("<runs...>", "runs that differ in one option, or folders of them")
    .requiredOption("--by <option>", "a method's option (alpha, rift.alpha, keep) or a setting (train.learningRate)")
    .addHelpText(
      "after",
      examples("temper analyze ablation runs/alpha --by rift.alpha", "temper analyze ablation runs/gamma --by gamma --json"),
    )
    .action(async (folders, options) => {
      const notice = noticeOf(io, options);
      const runs = await Promise.all((await readFinishedRuns(folders)).map((run) => readAttacked(run, notice)));
      await finish(io, options, folderOf(options, folders), analyseAblation(runs, options.by));
    });
}
