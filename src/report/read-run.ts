import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists, readJson, readText } from "../files.js";
import { readConfig } from "../models/config.js";
import { type RunConfig, runConfigSchema } from "../runs/config.js";
import type { Environment } from "../runs/environment.js";
import { type RunEvent, readEvents, readTimings } from "../runs/events.js";
import { readStatus, runFiles } from "../runs/folder.js";
import { listRuns } from "../runs/list.js";
import { readYaml } from "../runs/read-config.js";
import { type Results, readResults } from "../runs/results.js";
import { validate } from "../validate.js";
import { type Figure, readFigures } from "./figures.js";
import { type RunAttacks, readAttacks } from "./read-attacks.js";

/** All that a run folder holds, as the report needs it. */
export interface ReportRun {
  readonly folder: string;
  readonly config: RunConfig;
  /** config.yaml as it stands. */
  readonly configText: string;
  readonly environment: Environment;
  /** Null before the run has finished. */
  readonly results: Results | null;
  readonly failure: string | null;
  readonly events: readonly RunEvent[];
  /** Seconds that the updates took together. */
  readonly seconds: number;
  /** Names of the classes, in the model's order; none before the model is saved. */
  readonly labels: readonly string[];
  readonly attacks: RunAttacks;
  readonly figures: readonly Figure[];
}

/** The runs that folders name: a run each, or all those below. */
export async function readRuns(folders: readonly string[]): Promise<ReportRun[]> {
  const found: string[] = [];
  for (const folder of folders) {
    const runs = await listRuns(folder);
    if (runs.length === 0)
      throw new UserError(`${folder}: there is no run in it: expected a folder with ${runFiles.config}, as temper train writes it`);
    found.push(...runs.map((run) => run.folder));
  }
  return Promise.all([...new Set(found)].map(readRun));
}

async function readRun(folder: string): Promise<ReportRun> {
  const path = join(folder, runFiles.config);
  const located = await readYaml(path);
  const config = validate(runConfigSchema, located.value, located.where);
  const [configText, environment, results, status, events, seconds, labels, figures] = await Promise.all([
    readText(path, "the run's config"),
    readJson(join(folder, runFiles.environment), "the run's environment"),
    readResults(folder),
    readStatus(folder),
    readEvents(folder),
    readSeconds(folder),
    readLabels(folder),
    readFigures(join(folder, "analysis")),
  ]);
  return {
    folder,
    config,
    configText,
    environment: environment as Environment,
    results,
    failure: results ? null : (status?.failure ?? null),
    events,
    seconds,
    labels,
    attacks: await readAttacks(join(folder, "attacks"), config.encoding),
    figures,
  };
}

async function readSeconds(folder: string): Promise<number> {
  if (!(await exists(join(folder, runFiles.timings)))) return 0;
  return (await readTimings(folder)).reduce((sum, { seconds }) => sum + seconds, 0);
}

async function readLabels(folder: string): Promise<readonly string[]> {
  const model = join(folder, runFiles.model);
  return (await exists(join(model, "config.json"))) ? (await readConfig(model)).labels : [];
}
