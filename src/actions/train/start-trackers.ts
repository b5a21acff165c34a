import { basename, resolve } from "node:path";
import { z } from "zod";
import { writeFileAtomic } from "../../files.js";
import type { RunConfig } from "../../runs/config.js";
import type { RunWriter } from "../../runs/run-writer.js";
import { readJsonIfExists } from "../../validate.js";
import { MlflowTracker } from "./mlflow.js";
import { TensorBoardWriter } from "./tensorboard.js";
import type { Tracker } from "./tracker.js";

/** The programs that a run can report to. */
export const trackerNames = ["tensorboard", "mlflow"] as const;
export type TrackerName = (typeof trackerNames)[number];

interface TrackedRun {
  readonly config: RunConfig;
  readonly writer: Pick<RunWriter, "folder" | "path">;
  /** The step that the run continues from. */
  readonly step: number;
  readonly onWarning: (message: string) => void;
}

const mlflowFileSchema = z.object({ runId: z.string() });

/** Starts the trackers of a run. The ID of an MLflow run is kept in the run folder for --resume. */
export async function startTrackers(names: readonly TrackerName[], run: TrackedRun): Promise<Tracker[]> {
  const { config, writer, step, onWarning } = run;
  const trackers: Tracker[] = [];
  if (names.includes("tensorboard")) trackers.push(new TensorBoardWriter(writer.path("tensorboard"), step));
  if (names.includes("mlflow")) {
    const path = writer.path("mlflow");
    const known = await readJsonIfExists(path, mlflowFileSchema, "the ID of the MLflow run");
    const name = basename(resolve(writer.folder));
    const params = flatten(config);
    const tracker = await MlflowTracker.start({ name, params, runId: known?.runId ?? null, onWarning });
    await writeFileAtomic(path, `${JSON.stringify({ runId: tracker.runId })}\n`);
    trackers.push(tracker);
  }
  return trackers;
}

/** The settings of a run as one level of keys: `train.learningRate`. */
function flatten({ train, ...rest }: RunConfig): Record<string, unknown> {
  const inner = Object.entries(train).map(([key, value]) => [`train.${key}`, value]);
  return Object.fromEntries([...Object.entries(rest), ...inner].filter(([, value]) => value !== null));
}
