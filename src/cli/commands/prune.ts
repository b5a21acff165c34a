import type { Command } from "@commander-js/extra-typings";
import { type PrunedRun, prune, pruneRequestSchema } from "../../actions/prune.js";
import { formatBytes } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { formatTable, printJson } from "../output.js";

export const note =
  "By default, only the optimizer state of finished runs is removed. Models, results, attacks and figures stay.";
export const examples = ["temper prune runs --dry-run", "temper prune runs/sst2-rose-seed0 --checkpoints"];

export function define(command: Command, io: Io): void {
  const { shape } = pruneRequestSchema;
  addOptions(command.argument("<folders...>", shape.folders.description), shape, ["folders"])
    .option("--json", "print the runs as JSON")
    .action(async (folders, { json, ...options }) => {
      const pruned = await prune({ folders, ...options });
      if (json) return printJson(io, pruned);
      await write(io.stdout, formatPruned(io, pruned, options.dryRun === true));
    });
}

function formatPruned(io: Io, pruned: readonly PrunedRun[], dryRun: boolean): string {
  const changed = pruned.filter(({ bytesRemoved }) => bytesRemoved > 0);
  const total = changed.reduce((sum, { bytesRemoved }) => sum + bytesRemoved, 0);
  if (changed.length === 0) return "Nothing to remove. Runs that have not finished keep everything.\n";
  const rows = changed.map(({ folder, bytesBefore, bytesRemoved }) => [
    folder,
    formatBytes(bytesBefore),
    formatBytes(bytesBefore - bytesRemoved),
  ]);
  const table = formatTable(io.stdout, rows, { head: ["run", "before", "after"], numeric: [1, 2] });
  const what = `${formatBytes(total)} of ${changed.length === 1 ? "1 run" : `${changed.length} runs`}`;
  return `${table}\n\n${dryRun ? `Would remove ${what}.` : `Removed ${what}.`}\n`;
}
