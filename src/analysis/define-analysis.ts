import { z } from "zod";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { orNull } from "../base/validate.js";
import type { Results } from "../runs/results.js";
import { RunFolder } from "../runs/run-folder.js";
import { applyRuntime, type RuntimeConfig, runtimeOptions } from "../settings/runtime-config.js";
import type { Figure } from "./figure.js";
import { labelRuns } from "./run-labels.js";

export interface Analysis<Data> {
  readonly summary: string;
  readonly data: Data;
  readonly figure: Figure;
}

export interface AnalysisContext extends Callbacks {
  /** The folder of the result. Resumable analyses store finished pieces in it. */
  readonly out: string;
  /** Reports progress, lets other events run, and throws `Interrupted` if `signal` is aborted. */
  advance(done: number, total: number): Promise<void>;
}

/** One figure of the papers: its request, the schema of its data, and its computation. */
export interface AnalysisDefinition<
  Name extends string = string,
  Request extends z.ZodType = z.ZodType,
  Data extends z.ZodType = z.ZodType,
> {
  readonly name: Name;
  readonly summary: string;
  readonly unit: string;
  /** The part that outlives a stop; undefined if the analysis starts over. */
  readonly keeps?: string | undefined;
  readonly request: Request;
  readonly data: Data;
  /** True if it looks at one run at a time. A sweep repeats it for each run. */
  readonly isPerRun?: boolean;
  /** True if it reads the results of attacks. A sweep repeats it when the attacks change. */
  readonly readsAttacks?: boolean;
  /** The metrics that it adds to the runs, for the options of a request. */
  listMetrics?(options: Readonly<Record<string, unknown>>): string[];
  run(request: z.output<Request>, context: AnalysisContext): Promise<Analysis<z.output<Data>>>;
}

const outputOptions = {
  out: orNull(z.string(), "analysis/ of the run").describe("folder for the data and the figure"),
  png: z.boolean().default(false).describe("write the figure as PNG, too"),
};

type RequestSchema<Name extends string, Options extends z.ZodRawShape> = z.ZodObject<
  Options & typeof outputOptions & { analysis: z.ZodLiteral<Name> },
  z.core.$strict
>;

/** Defines an analysis. Its name as `analysis`, `out` and `png` are added to its options. */
export function defineAnalysis<Name extends string, Options extends z.ZodRawShape, Data extends z.ZodType>(
  definition: Omit<AnalysisDefinition<Name, RequestSchema<Name, Options>, Data>, "request"> & {
    readonly options: Options;
  },
): AnalysisDefinition<Name, RequestSchema<Name, Options>, Data> {
  const { options, ...rest } = definition;
  const request = z.strictObject({ ...options, ...outputOptions, analysis: z.literal(definition.name) });
  return { ...rest, request: request as RequestSchema<Name, Options> };
}

export function runsOption(description: string) {
  return z.array(z.string()).min(1, { error: "expected one or more runs" }).describe(description);
}

export const deviceOptions = {
  device: runtimeOptions.device.describe("auto, cpu, cuda or cuda:N"),
  threads: runtimeOptions.threads,
};

export function sampleOptions(defaultCount: number, minCount = 2) {
  return {
    split: z.enum(["train", "validation", "test"]).default("test").describe("dataset split to use"),
    numExamples: z
      .number()
      .int()
      .min(minCount, { error: `expected an integer of at least ${minCount}` })
      .default(defaultCount)
      .describe("size of the class-balanced sample"),
    seed: z.number().int().nonnegative().default(0).describe("random seed of the sample and of the analysis"),
    ...deviceOptions,
  };
}

/** Analyses compute in full precision, because the differences they measure are small. */
export function applyFloat32Runtime(options: {
  readonly device: string;
  readonly threads: number | null;
}): RuntimeConfig {
  return applyRuntime({ ...options, precision: "fp32" });
}

/** A finished run with a short label that tells it apart from the other runs of the figure. */
export interface LabeledRun {
  readonly run: RunFolder;
  readonly results: Results;
  readonly label: string;
}

export async function findLabeledRuns(folders: readonly string[], expected?: number): Promise<LabeledRun[]> {
  const found = await RunFolder.findFinished(folders);
  if (expected !== undefined && found.length !== expected) {
    const count = expected === 1 ? "one run" : `${expected} runs`;
    throw new UserError(`Expected ${count}, found ${found.length} in ${folders.join(" and ")}. Pass exactly ${count}.`);
  }
  const labels = labelRuns(found.map(({ run }) => run));
  return found.map((each, i) => ({ ...each, label: labels[i]! }));
}

/** Evenly spaced values from low to high. 0 and 1 are exact if they are on the grid. */
export function linspace(low: number, high: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) =>
    Number(((low * (count - 1 - i) + high * i) / (count - 1)).toPrecision(12)),
  );
}
