import { rm } from "node:fs/promises";
import { z } from "zod";
import { measurePath } from "../base/files.js";
import { validate } from "../base/validate.js";
import { listPrunable } from "../runs/run-files.js";
import { RunFolder } from "../runs/run-folder.js";

export const pruneRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).describe("runs, or folders with runs"),
  checkpoints: z.boolean().default(false).describe("remove whole checkpoints, which some analyses read"),
  dryRun: z.boolean().default(false).describe("print what would be removed; remove nothing"),
});

export interface PrunedRun {
  readonly folder: string;
  readonly bytesBefore: number;
  readonly bytesRemoved: number;
}

/**
 * Removes what finished runs no longer need: the optimizer state of their checkpoints or, on
 * request, the checkpoints. Runs that can be continued stay as they are.
 *
 *     const removed = await prune({ folders: ["runs"], checkpoints: true });
 */
export async function prune(request: z.input<typeof pruneRequestSchema>): Promise<PrunedRun[]> {
  const { folders, checkpoints, dryRun } = validate(pruneRequestSchema, request, "prune");
  const pruned: PrunedRun[] = [];
  for (const run of await RunFolder.find(folders)) {
    if ((await run.state()) !== "finished") continue;
    const { folder } = run;
    const bytesBefore = await measurePath(folder);
    let bytesRemoved = 0;
    for (const path of await listPrunable(folder, checkpoints)) {
      bytesRemoved += await measurePath(path);
      if (!dryRun) await rm(path, { recursive: true, force: true });
    }
    pruned.push({ folder, bytesBefore, bytesRemoved });
  }
  return pruned;
}
