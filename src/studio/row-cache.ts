import { dirname } from "node:path";
import { z } from "zod";
import { createFolder, readJson, writeFileAtomic } from "../base/files.js";
import type { RunRow } from "./api.js";

/** A row, and the fingerprint of the files that it was read from. */
export interface CachedRow {
  readonly fingerprint: string;
  readonly row: RunRow;
}

/** Rows of another format are read anew. Increase it whenever `RunRow` changes. */
const format = 2;
const nullable = z.number().nullable();
const metricSchema = z.object({ value: z.number(), low: nullable, high: nullable, examples: nullable });
const cacheSchema = z.object({
  format: z.literal(format),
  rows: z.record(
    z.string(),
    z.object({
      fingerprint: z.string(),
      row: z.looseObject({ state: z.string(), metrics: z.record(z.string(), metricSchema) }),
    }),
  ),
});

/**
 * The rows of the last time, so that a large table appears at once: a row takes 30 ms if its
 * journals must be read. The file is optional. Rows whose fingerprint no longer holds are replaced.
 */
export async function readRowCache(path: string): Promise<Map<string, CachedRow>> {
  const data = await readJson(path, "the rows of the studio", { kind: "lines" }).catch(() => null);
  const parsed = cacheSchema.safeParse(data);
  return new Map(parsed.success ? (Object.entries(parsed.data.rows) as unknown as [string, CachedRow][]) : []);
}

export async function writeRowCache(path: string, rows: Iterable<readonly [string, CachedRow]>): Promise<void> {
  try {
    createFolder(dirname(path));
    await writeFileAtomic(path, JSON.stringify({ format, rows: Object.fromEntries(rows) }));
  } catch {
    // A folder that cannot be written to is shown as well, only more slowly.
  }
}
