import { type Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { analyzeLandscape } from "../../analysis/landscape-of-runs.js";
import { readFinishedRuns } from "../../analysis/load-runs.js";
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

/** An odd number of points has one in the middle: the model itself. */
function parseOddInteger(text: string): number {
  const value = createIntegerParser(3, 501)(text);
  if (value % 2 === 1) return value;
  throw new InvalidArgumentError("Expected an odd number, so that the model stands in the middle.");
}

/** At 0 there would be no axis, and below it the axis runs backwards. */
function parsePositiveNumber(text: string): number {
  const value = parseNumber(text);
  if (value > 0) return value;
  throw new InvalidArgumentError("Expected a number above 0.");
}

export function define(command: Command, io: Io): void {
  addSampleOptions(command, 128)
    .argument("<run...>", "finished runs of one task, or folders of them")
    .option("--pretrained", "the weights before fine-tuning too")
    .addOption(new Option("--points <count>", "points an axis").argParser(parseOddInteger).default(51))
    .addOption(
      new Option("--range <number>", "how far each axis goes, in lengths of the weights")
        .argParser(parsePositiveNumber)
        .default(0.25),
    )
    .addHelpText(
      "after",
      `\nStopped, it goes on where it was: points that are done are kept in landscape.points.jsonl, those of other settings too.\n${formatHelpExamples(
        "temper analyze landscape runs/sst2-standard-seed0 runs/sst2-rose-seed0 --pretrained --split train",
        "temper analyze landscape runs/sst2-rose-seed0 --points 21 --num-examples 64",
      )}`,
    )
    .action(async (folders, options) => {
      const runs = await readFinishedRuns(folders);
      const { device } = configureFloat32Runtime(options);
      const out = getAnalysisFolder(options, folders);
      const { pretrained = false, ...rest } = options;
      const warn = createWarningPrinter(io, options);
      const analysis = await withProgress(
        io,
        options,
        "landscape",
        "points",
        (onPoint) =>
          analyzeLandscape(runs, {
            ...rest,
            examples: options.numExamples,
            pretrained,
            device,
            out,
            warn: warn,
            onPoint,
          }),
        "every finished point is kept",
      );
      await writeAndPrintAnalysis(io, options, out, analysis);
    });
}
