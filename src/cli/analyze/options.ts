import { join } from "node:path";
import { type Command, Option } from "@commander-js/extra-typings";
import { type Analysis, toAnalysisJson, writeAnalysis } from "../../analysis/write-analysis.js";
import { configureRuntime, type RuntimeConfig } from "../../runs/runtime-config.js";
import { formatCommandLine } from "../../shell.js";
import { interruptedExitCode } from "../../sweeps/subprocess.js";
import { parseSplit } from "../../tasks/task.js";
import { type Io, write } from "../io.js";
import { createIntegerParser, deviceOption, jsonOption, quietOption, seedOption, threadsOption } from "../options.js";
import { printJson } from "../output.js";
import { createProgress, type Progress } from "../progress.js";
import { onStopSignals } from "../signals.js";

/** What every analysis takes. */
export function addOutputOptions(command: Command) {
  return command
    .option("--out <folder>", "where data and figure go (default: analysis/ in the first folder named)")
    .option("--png", "the figure as PNG too")
    .addOption(jsonOption("print the data as JSON"))
    .addOption(quietOption());
}

/** What an analysis takes that computes. */
export function addDeviceOptions(command: Command) {
  return addOutputOptions(command).addOption(deviceOption()).addOption(threadsOption());
}

/** What an analysis takes that asks models about examples. */
export function addSampleOptions(command: Command, defaultCount: number, minCount = 2) {
  return addDeviceOptions(command)
    .addOption(
      new Option("--split <name>", "dataset split: train, validation or test (default: test)").argParser(parseSplit),
    )
    .addOption(
      new Option("--num-examples <count>", "a class-balanced sample of so many examples")
        .argParser(createIntegerParser(minCount))
        .default(defaultCount),
    )
    .addOption(seedOption("which sample is taken, and all else that is drawn").default(0));
}

interface OutputOptions {
  readonly out?: string | undefined;
  readonly png?: true | undefined;
  readonly json?: true | undefined;
  readonly quiet?: true | undefined;
}

/** Where an analysis of these folders goes. */
export function getAnalysisFolder({ out }: OutputOptions, [first = "."]: readonly string[]): string {
  return out ?? join(first, "analysis");
}

/** Writes an analysis and says what it means. */
export async function writeAndPrintAnalysis<Data>(
  io: Io,
  options: OutputOptions,
  folder: string,
  analysis: Analysis<Data>,
): Promise<void> {
  const files = await writeAnalysis(folder, analysis, options.png === true);
  if (options.json) return printJson(io, { ...toAnalysisJson(analysis), files });
  await write(
    io.stdout,
    `${analysis.meaning}\n${[files.svg, files.png, files.json].filter((path) => path !== null).join("  ")}\n`,
  );
}

/** Analyses compute in full precision: what they measure is small. */
export function configureFloat32Runtime({
  device = "auto",
  threads = null,
}: {
  device?: string | undefined;
  threads?: number | null | undefined;
}): RuntimeConfig {
  return configureRuntime({ device, precision: "fp32", threads });
}

export function createWarningPrinter(io: Io, { quiet }: OutputOptions): (message: string) => void {
  return (message) => void (quiet || io.stderr.write(`note: ${message}\n`));
}

/** Says on Ctrl-C how to go on with an analysis that keeps what is done; returns what ends that. */
export function printResumeHintOnStop(io: Io, kept: string, endProgress: () => void): () => void {
  // What is done is on the disk, so there is nothing to save.
  return onStopSignals(() => {
    endProgress();
    io.stderr.write(`\nstopped; ${kept}. Go on with: ${formatCommandLine(["temper", ...process.argv.slice(2)])}\n`);
    process.exit(interruptedExitCode);
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
  const untell = kept === undefined ? undefined : printResumeHintOnStop(io, kept, () => progress?.end());
  try {
    return await work((done, total) => {
      progress ??= createProgress({ label, total, unit, quiet, stream: io.stderr });
      progress.update(done);
    });
  } finally {
    untell?.();
    progress?.end();
  }
}
