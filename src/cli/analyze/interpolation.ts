import { type Command, Option } from "@commander-js/extra-typings";
import { analyseLine } from "../../analysis/interpolation-of-runs.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import { UserError } from "../../errors.js";
import type { Io } from "../io.js";
import { examples, realNumber, wholeNumber } from "../options.js";
import { finish, folderOf, machineOf, noticeOf, sampleOptions, withProgress } from "./shared.js";

export function define(command: Command, io: Io): void {
  sampleOptions(command, 500)
    .argument("<a>", "the run at alpha 0")
    .argument("<b>", "the run at alpha 1")
    .addOption(new Option("--points <count>", "points on the line").argParser(wholeNumber(2)).default(51))
    .addOption(new Option("--from <alpha>", "where the line begins").argParser(realNumber).default(-0.5))
    .addOption(new Option("--to <alpha>", "where it ends").argParser(realNumber).default(1.5))
    .addHelpText("after", examples("temper analyze interpolation runs/sst2-rose-seed0 runs/sst2-standard-seed0"))
    .action(async (a, b, options) => {
      const runs = await readFinishedRuns([a, b]);
      const [first, second] = runs;
      if (runs.length !== 2 || !first || !second) throw new UserError(`interpolation: expected two runs, received ${runs.length}`);
      const { device } = machineOf(options);
      const notice = noticeOf(io, options);
      const analysis = await withProgress(io, options, "interpolation", "points", (on) =>
        analyseLine(first, second, { ...options, device, notice, onPoint: (done) => on(done, options.points) }),
      );
      await finish(io, options, folderOf(options, [a]), analysis);
    });
}
