import { basename } from "node:path";
import { z } from "zod";
import { readJsonIfExists, writeJson } from "../base/read-json.js";
import { guardPointsSchema } from "../evaluation/operating-points.js";
import { getRunPath } from "./run-files.js";

const calibrationSchema = z.object({
  /** A text is flagged if the score of the positive label is above. */
  threshold: z.number(),
  fpr: z.number(),
  examples: z.int(),
  positiveLabel: z.string(),
  /** Maximum words per window; null if complete texts are scored. */
  windows: z.int().nullable(),
  /** The guard on test texts; null if the run has none of them, or none with another label. */
  operatingPoints: guardPointsSchema.nullable().default(null),
});

/** The threshold of a run, and the false-positive rate that it promises. */
export type Calibration = Readonly<z.output<typeof calibrationSchema>>;

/** Reads the threshold of a run; null if it was never calibrated. */
export function readCalibration(folder: string): Promise<Calibration | null> {
  return readJsonIfExists(getRunPath(folder, "calibration"), calibrationSchema, "the calibration of the run");
}

export async function createCalibrationFiles(folder: string): Promise<{ path: string; content: string }[]> {
  const calibration = await readCalibration(folder);
  const path = basename(getRunPath(folder, "calibration"));
  return calibration ? [{ path, content: `${JSON.stringify(calibration, null, 2)}\n` }] : [];
}

export async function writeCalibration(folder: string, calibration: Calibration): Promise<void> {
  await writeJson(getRunPath(folder, "calibration"), calibration);
}
