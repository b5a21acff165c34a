import { join } from "node:path";
import { z } from "zod";
import { exists } from "../files.js";
import { readJsonLines } from "../json-lines.js";
import { runFiles } from "./run-folder.js";

/** A line of a run's events: an update with its numbers (loss, rate, …), or an evaluation. */
export interface RunEvent {
  readonly step: number;
  readonly best?: boolean;
  readonly evaluation?: Readonly<Record<string, number>>;
  readonly [number: string]: unknown;
}

const eventSchema = z.looseObject({ step: z.number() });
const timingSchema = z.object({ step: z.number(), seconds: z.number(), examples: z.number().optional() });

/** The events so far. */
export async function readEvents(folder: string): Promise<RunEvent[]> {
  const path = join(folder, runFiles.events);
  return (await exists(path)) ? ((await readJsonLines(path, eventSchema, "the run's events")) as RunEvent[]) : [];
}

/** How long each update so far took, and over how many examples. */
export function readTimings(folder: string): Promise<z.output<typeof timingSchema>[]> {
  return readJsonLines(join(folder, runFiles.timings), timingSchema, "the run's timings");
}
