import { join } from "node:path";
import type { RunConfig } from "../runs/config.js";
import { runFiles } from "../runs/folder.js";
import { commandLine } from "../shell.js";
import type { Plan } from "./plan.js";
import type { Step } from "./step.js";

/** The files of a run folder that hold what was measured after training. */
export const thenFiles = {
  advglue: "advglue.json",
  attacks: join("attacks", "report.json"),
  consistency: join("analysis", "consistency.json"),
} as const;

/** How a measure begins that says how often two dropouts disagree over the first so many steps: inconsistent-200. */
export const inconsistent = "inconsistent-";

/** What AdvGLUE adds to a table: accuracy on it, and what it costs against GLUE. */
export const advglueMeasures = ["advglue", "drop"];

type Then = Plan["settings"]["then"];
type Analysis = Then["analyses"][number];
type FlagValue = string | number | boolean;

/** Trains a run, or goes on with it. */
export function trainStep(folder: string): Step {
  return { name: "train", argv: ["train", "--resume", "--out", folder, "--quiet"], output: join(folder, runFiles.results), prints: false };
}

/** What is measured on a selected run. */
export function thenSteps(folder: string, config: RunConfig, then: Then): Step[] {
  const place = flagsOf({
    ...(config.device === "auto" ? {} : { device: config.device }),
    ...(config.precision === null ? {} : { precision: config.precision }),
    ...(config.threads === null ? {} : { threads: config.threads }),
  });
  const steps: Step[] = [];
  if (then.advglue) {
    const data = config.data === null ? [] : ["--data", config.data];
    const argv = ["evaluate", folder, "--task", "advglue", ...data, ...place, "--json", "--quiet"];
    steps.push({ name: "advglue", argv, output: join(folder, thenFiles.advglue), prints: true });
  }
  const names = Object.keys(then.attacks);
  if (names.length > 0) {
    const attacks = Object.entries(then.attacks).flatMap(([name, options]) => ["--attack", withOptions(name, options)]);
    const chosen = flagsOf({ examples: then.examples, seed: then.seed, ...then.options });
    const argv = ["attack", folder, ...attacks, ...chosen, ...place, "--out", join(folder, "attacks"), "--resume", "--quiet"];
    // Where it was computed does not matter; a plan of other attacks, examples or options does.
    const decisive = ` ${commandLine([...attacks, ...chosen])} `;
    const whole = (report: unknown): boolean => String((report as { command?: unknown }).command).includes(decisive);
    steps.push({ name: "attacks", argv, output: join(folder, thenFiles.attacks), prints: false, whole });
  }
  return steps;
}

/** Analyses that look at one run alone. */
const single = new Set<Analysis["kind"]>(["consistency"]);

/**
 * The figures of one analysis over the chosen runs of a column: one of all of them together, or one of each. They go where the
 * report looks for them: into the first run. `before`: so many analyses of the same kind come before it in the plan.
 */
export function figureSteps({ kind, options }: Analysis, folders: readonly string[], before: number): Step[] {
  const groups = single.has(kind) ? folders.map((folder) => [folder]) : folders.length > 0 ? [folders] : [];
  return groups.map((runs) => {
    const folder = join(runs[0]!, "analysis", before === 0 ? "" : String(before + 1));
    return {
      name: kind,
      argv: ["analyze", kind, ...runs, ...flagsOf(options), "--out", folder, "--quiet"],
      output: join(folder, `${kind}.json`),
      prints: false,
    };
  });
}

/** { examples: 1000, csv: true } as --examples 1000 --csv. */
function flagsOf(options: Readonly<Record<string, FlagValue>>): string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    value === false ? [] : value === true ? [`--${name}`] : [`--${name}`, String(value)],
  );
}

function withOptions(name: string, options: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(options).map(([key, value]) => `${key}=${String(value)}`);
  return given.length === 0 ? name : `${name}:${given.join(",")}`;
}
