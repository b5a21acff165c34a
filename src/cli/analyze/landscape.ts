import { type Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { analyseLandscape } from "../../analysis/landscape-of-runs.js";
import { readFinishedRuns } from "../../analysis/runs.js";
import type { Io } from "../io.js";
import { examples, realNumber, wholeNumber } from "../options.js";
import { finish, folderOf, machineOf, noticeOf, sampleOptions, withProgress } from "./shared.js";

/** An odd number of points has one in the middle: the model itself. */
function oddNumber(text: string): number {
  const value = wholeNumber(3, 501)(text);
  if (value % 2 === 1) return value;
  throw new InvalidArgumentError("Expected an odd number, so that the model stands in the middle.");
}

/** At 0 there would be no axis, and below it the axis runs backwards. */
function positiveNumber(text: string): number {
  const value = realNumber(text);
  if (value > 0) return value;
  throw new InvalidArgumentError("Expected a number above 0.");
}

export function define(command: Command, io: Io): void {
  sampleOptions(command, 128)
    .argument("<run...>", "finished runs of one task, or folders of them")
    .option("--pretrained", "the weights before fine-tuning too")
    .addOption(new Option("--points <count>", "points an axis").argParser(oddNumber).default(51))
    .addOption(new Option("--range <number>", "how far each axis goes, in lengths of the weights").argParser(positiveNumber).default(0.25))
    .addHelpText(
      "after",
      `\nStopped, it goes on where it was: points that are done are kept in landscape.points.jsonl, those of other settings too.\n${examples(
        "temper analyze landscape runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --split train",
        "temper analyze landscape runs/sst2-rose-seed0 --points 21 --examples 64",
      )}`,
    )
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = machineOf(options);
      const out = folderOf(options, folders);
      const { pretrained = false, ...rest } = options;
      const notice = noticeOf(io, options);
      const analysis = await withProgress(
        io,
        options,
        "landscape",
        "points",
        (onPoint) => analyseLandscape(runs, { ...rest, pretrained, device, out, notice, onPoint }),
        "every finished point is kept",
      );
      await finish(io, options, out, analysis);
    });
}
