import { join } from "node:path";
import { exists, readText } from "../files.js";
import { runFiles } from "./folder.js";

/** A line of a run's events: an update with its numbers (loss, rate, …), or an evaluation. */
export interface RunEvent {
  readonly step: number;
  readonly best?: boolean;
  readonly evaluation?: Readonly<Record<string, number>>;
  readonly [number: string]: unknown;
}

/** The events so far; a last line that is still being written is left out. */
export async function readEvents(folder: string): Promise<RunEvent[]> {
  const path = join(folder, runFiles.events);
  if (!(await exists(path))) return [];
  const lines = (await readText(path, "the run's events")).split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as RunEvent);
}
