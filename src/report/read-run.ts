import { join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { exists, readJson, readText } from "../files.js";
import { readModelConfig } from "../models/config.js";
import { type RunConfig, runConfigSchema } from "../runs/config.js";
import { listRuns } from "../runs/list-runs.js";
import { readYaml } from "../runs/read-config.js";
import { type RunEvent, readEvents, readTimings } from "../runs/read-events.js";
import { type Results, readResults } from "../runs/results.js";
import { readStatus, runFiles } from "../runs/run-folder.js";
import { validate } from "../validate.js";
import { readFigures, type SavedFigure } from "./figures.js";
import { type RunAttacks, readRunAttacks } from "./read-attacks.js";

/** Of a run's environment, what the report tells. */
const environmentSchema = z.looseObject({
  ...{
    temper: z.string(),
    commit: z.string().nullable(),
    node: z.string(),
    libtorch: z.string(),
    platform: z.string(),
  },
  ...{ device: z.string(), precision: z.string(), threads: z.number() },
  model: z.looseObject({ hash: z.string() }),
  data: z.looseObject({ train: z.string() }),
});

/** All that a run folder holds, as the report needs it. */
export interface ReportRun {
  readonly folder: string;
  readonly config: RunConfig;
  /** config.yaml as it stands. */
  readonly configText: string;
  readonly environment: z.output<typeof environmentSchema>;
  /** Null before the run has finished. */
  readonly results: Results | null;
  readonly failure: string | null;
  readonly events: readonly RunEvent[];
  /** Seconds that the updates took together. */
  readonly seconds: number;
  /** Names of the classes, in the model's order; none before the model is saved. */
  readonly labels: readonly string[];
  readonly attacks: RunAttacks;
  readonly figures: readonly SavedFigure[];
}

/** The runs that folders name: a run each, or all those below. */
export async function readReportRuns(folders: readonly string[]): Promise<ReportRun[]> {
  // One run may be named by several paths; it is read once, by the first.
  const found = new Map<string, string>();
  for (const folder of folders) {
    const runs = await listRuns(folder);
    if (runs.length === 0)
      throw new UserError(
        `${folder}: there is no run in it: expected a folder with ${runFiles.config}, as temper train writes it`,
      );
    for (const run of runs) if (!found.has(resolve(run.folder))) found.set(resolve(run.folder), run.folder);
  }
  return Promise.all([...found.values()].map(readReportRun));
}

async function readReportRun(folder: string): Promise<ReportRun> {
  const path = join(folder, runFiles.config);
  const located = await readYaml(path);
  const config = validate(runConfigSchema, located.value, located.where);
  const [configText, environment, results, status, events, seconds, labels, figures] = await Promise.all([
    readText(path, "the run's config"),
    readEnvironment(join(folder, runFiles.environment)),
    readResults(folder),
    readStatus(folder),
    readEvents(folder),
    readTrainingSeconds(folder),
    readLabels(folder),
    readFigures(join(folder, "analysis")),
  ]);
  return {
    folder,
    config,
    configText,
    environment,
    results,
    failure: results ? null : (status?.failure ?? null),
    events,
    seconds,
    labels,
    attacks: await readRunAttacks(join(folder, "attacks"), config.tokenization),
    figures,
  };
}

async function readEnvironment(path: string): Promise<z.output<typeof environmentSchema>> {
  return validate(environmentSchema, await readJson(path, "the run's environment"), path);
}

async function readTrainingSeconds(folder: string): Promise<number> {
  if (!(await exists(join(folder, runFiles.timings)))) return 0;
  return (await readTimings(folder)).reduce((sum, { seconds }) => sum + seconds, 0);
}

async function readLabels(folder: string): Promise<readonly string[]> {
  const model = join(folder, runFiles.model);
  return (await exists(join(model, "config.json"))) ? (await readModelConfig(model)).labels : [];
}
