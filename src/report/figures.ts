import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { exists } from "../files.js";

/** A figure that an analysis drew. */
export interface SavedFigure {
  readonly name: string;
  readonly svg: Buffer;
  /** What it means, in the analysis's own words, where it left any. */
  readonly meaning: string | null;
}

/** The figures in a folder and in those inside it, each with the data beside it. */
export async function readFigures(folder: string): Promise<SavedFigure[]> {
  if (!(await exists(folder))) return [];
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".svg")).sort();
  return Promise.all(
    files.map(async (file) => {
      const svg = join(folder, file);
      return {
        name: basename(file, ".svg"),
        svg: await readFile(svg),
        meaning: await readSummary(svg.replace(/svg$/, "json")),
      };
    }),
  );
}

/** Damaged data costs its sentence, not the report. */
async function readSummary(path: string): Promise<string | null> {
  try {
    const { meaning } = JSON.parse(await readFile(path, "utf8")) as { meaning?: unknown };
    return typeof meaning === "string" ? meaning : null;
  } catch {
    return null;
  }
}
