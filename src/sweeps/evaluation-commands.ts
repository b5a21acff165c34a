import { join } from "node:path";
import type { RunConfig } from "../runs/config.js";
import { runFiles } from "../runs/run-folder.js";
import { formatCommandLine } from "../shell.js";
import type { SweepPlan } from "./plan.js";
import type { SubprocessCommand } from "./subprocess.js";

/** The files of a run folder that hold what was measured after training. */
export const evaluationFiles = {
  advglue: "advglue.json",
  attacks: join("attacks", "report.json"),
  consistency: join("analysis", "consistency.json"),
} as const;

/** How a measure begins that says how often two dropouts disagree over the first so many steps: inconsistent-200. */
export const inconsistencyPrefix = "inconsistent-";

/** What AdvGLUE adds to a table: accuracy on it, and what it costs against GLUE. */
export const advglueMetrics = ["advglue", "drop"];

type EvaluationSettings = SweepPlan["settings"]["evaluation"];
type AnalysisSettings = EvaluationSettings["analyses"][number];
type FlagValue = string | number | boolean;

/** Trains a run, or goes on with it. */
export function createTrainCommand(folder: string): SubprocessCommand {
  return {
    name: "train",
    argv: ["train", "--resume", "--out", folder, "--quiet"],
    output: join(folder, runFiles.results),
    prints: false,
  };
}

/** What is measured on a selected run. */
export function createEvaluationCommands(
  folder: string,
  config: RunConfig,
  then: EvaluationSettings,
): SubprocessCommand[] {
  const place = toFlags({
    ...(config.device === "auto" ? {} : { device: config.device }),
    ...(config.precision === null ? {} : { precision: config.precision }),
    ...(config.threads === null ? {} : { threads: config.threads }),
  });
  const steps: SubprocessCommand[] = [];
  if (then.advglue) {
    const data = config.data === null ? [] : ["--data", config.data];
    const argv = ["evaluate", folder, "--task", "advglue", ...data, ...place, "--json", "--quiet"];
    steps.push({ name: "advglue", argv, output: join(folder, evaluationFiles.advglue), prints: true });
  }
  const names = Object.keys(then.attacks);
  if (names.length > 0) {
    const attacks = Object.entries(then.attacks).flatMap(([name, options]) => [
      "--attack",
      formatWithOptions(name, options),
    ]);
    const chosen = toFlags({ examples: then.numExamples, seed: then.seed, ...then.options });
    const argv = [
      "attack",
      folder,
      ...attacks,
      ...chosen,
      ...place,
      "--out",
      join(folder, "attacks"),
      "--resume",
      "--quiet",
    ];
    // Where it was computed does not matter; a plan of other attacks, examples or options does.
    const decisive = ` ${formatCommandLine([...attacks, ...chosen])} `;
    const whole = (report: unknown): boolean => String((report as { command?: unknown }).command).includes(decisive);
    steps.push({
      name: "attacks",
      argv,
      output: join(folder, evaluationFiles.attacks),
      prints: false,
      isComplete: whole,
    });
  }
  return steps;
}

/** Analyses that look at one run alone. */
const singleRunAnalyses = new Set<AnalysisSettings["kind"]>(["consistency"]);

/**
 * The figures of one analysis over the chosen runs of a column: one of all of them together, or one of each. They go where the
 * report looks for them: into the first run. `before`: so many analyses of the same kind come before it in the plan.
 */
export function createFigureCommands(
  { kind, options }: AnalysisSettings,
  folders: readonly string[],
  before: number,
): SubprocessCommand[] {
  const groups = singleRunAnalyses.has(kind) ? folders.map((folder) => [folder]) : folders.length > 0 ? [folders] : [];
  return groups.map((runs) => {
    const folder = join(runs[0]!, "analysis", before === 0 ? "" : String(before + 1));
    return {
      name: kind,
      argv: ["analyze", kind, ...runs, ...toFlags(options), "--out", folder, "--quiet"],
      output: join(folder, `${kind}.json`),
      prints: false,
    };
  });
}

/** { examples: 1000, csv: true } as --num-examples 1000 --csv. */
function toFlags(options: Readonly<Record<string, FlagValue>>): string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    value === false ? [] : value === true ? [`--${name}`] : [`--${name}`, String(value)],
  );
}

function formatWithOptions(name: string, options: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(options).map(([key, value]) => `${key}=${String(value)}`);
  return given.length === 0 ? name : `${name}:${given.join(",")}`;
}
