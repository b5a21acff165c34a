import type { Command } from "@commander-js/extra-typings";
import { formatBytes, formatCount } from "../../base/format.js";
import { type ReportResult, report, reportRequestSchema } from "../../report/index.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { printJson } from "../output.js";

export const examples = [
  "temper report runs/sst2-standard-seed0",
  "temper report runs/spam-standard-seed0 runs/spam-ascc-seed0 --out spam.html",
];

export function define(command: Command, io: Io): void {
  const { shape } = reportRequestSchema;
  const withRuns = command.argument("<runs...>", shape.runs.description);
  addOptions(withRuns, shape, ["runs"], { out: "--out <file>" })
    .option("--json", "print the counts of the report as JSON")
    .action(async (runs, { json, ...request }) => {
      const result = await report({ runs, ...request });
      if (json) return printJson(io, result);
      await write(
        io.stdout,
        `${result.path}: ${formatContents(result)} (${formatBytes(result.bytes)}, self-contained)\n`,
      );
    });
}

function formatContents({ runs, attacks, examples, figures }: ReportResult): string {
  const parts: [number, string][] = [
    [runs, "run"],
    [attacks, "attack"],
    [examples, "attacked text"],
    [figures, "figure"],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${formatCount(count)} ${name}${count === 1 ? "" : "s"}`)
    .join(", ");
}
