import { join } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { type Analysis, toJson, writeAnalysis } from "../../analysis/write.js";
import { chooseMachine, type Machine } from "../../runs/placement.js";
import { commandLine } from "../../shell.js";
import { interruptedCode } from "../../sweeps/step.js";
import { type Io, write } from "../io.js";
import { deviceOption, jsonOption, quietOption, seedOption, threadsOption, wholeNumber } from "../options.js";
import { printJson } from "../output.js";
import { openProgress, type Progress } from "../progress.js";
import { onStopSignals } from "../signals.js";

/** What every analysis takes. */
export function outputOptions(command: Command) {
  return command
    .option("--out <folder>", "where data and figure go (default: analysis/ in the first folder named)")
    .option("--png", "the figure as PNG too")
    .addOption(jsonOption("print the data as JSON"))
    .addOption(quietOption());
}

/** What an analysis takes that computes. */
export function computeOptions(command: Command) {
  return outputOptions(command).addOption(deviceOption()).addOption(threadsOption());
}

/** What an analysis takes that asks models about examples. */
export function sampleOptions(command: Command, usual: number, least = 2) {
  return computeOptions(command)
    .addOption(
      new Option("--split <name>", "which part of the task (default: the one that reports)").choices([
        "train",
        "select",
        "dev",
        "test",
      ] as const),
    )
    .addOption(new Option("--examples <count>", "a class-balanced sample of so many examples").argParser(wholeNumber(least)).default(usual))
    .addOption(seedOption("which sample is taken, and all else that is drawn").default(0));
}

interface OutputOptions {
  readonly out?: string | undefined;
  readonly png?: true | undefined;
  readonly json?: true | undefined;
  readonly quiet?: true | undefined;
}

/** Where an analysis of these folders goes. */
export function folderOf({ out }: OutputOptions, [first = "."]: readonly string[]): string {
  return out ?? join(first, "analysis");
}

/** Writes an analysis and says what it means. */
export async function finish<Data>(io: Io, options: OutputOptions, folder: string, analysis: Analysis<Data>): Promise<void> {
  const files = await writeAnalysis(folder, analysis, options.png === true);
  if (options.json) return printJson(io, { ...toJson(analysis), files });
  await write(io.stdout, `${analysis.meaning}\n${[files.svg, files.png, files.json].filter((path) => path !== null).join("  ")}\n`);
}

/** Analyses compute in full precision: what they measure is small. */
export function machineOf({
  device = "auto",
  threads = null,
}: {
  device?: string | undefined;
  threads?: number | null | undefined;
}): Machine {
  return chooseMachine({ device, precision: "fp32", threads });
}

export function noticeOf(io: Io, { quiet }: OutputOptions): (message: string) => void {
  return (message) => void (quiet || io.stderr.write(`note: ${message}\n`));
}

/** Says on Ctrl-C how to go on with an analysis that keeps what is done; returns what ends that. */
export function tellHowToGoOn(io: Io, kept: string, endProgress: () => void): () => void {
  // What is done is on the disk, so there is nothing to save.
  return onStopSignals(() => {
    endProgress();
    io.stderr.write(`\nstopped; ${kept}. Go on with: ${commandLine(["temper", ...process.argv.slice(2)])}\n`);
    process.exit(interruptedCode);
  });
}

/**
 * Shows how far work is whose size is known when it begins; always ends what it shows. `kept` is what work that can be stopped says of
 * its finished pieces.
 */
export async function withProgress<T>(
  io: Io,
  { quiet }: OutputOptions,
  label: string,
  unit: string,
  work: (onProgress: (done: number, total: number) => void) => Promise<T>,
  kept?: string,
): Promise<T> {
  let progress: Progress | undefined;
  const untell = kept === undefined ? undefined : tellHowToGoOn(io, kept, () => progress?.end());
  try {
    return await work((done, total) => {
      progress ??= openProgress({ label, total, unit, quiet, stream: io.stderr });
      progress.update(done);
    });
  } finally {
    untell?.();
    progress?.end();
  }
}
