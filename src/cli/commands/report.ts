import type { Command } from "@commander-js/extra-typings";
import { formatBytes, formatCount } from "../../format.js";
import { type ReportResult, writeReport } from "../../report/index.js";
import { type Io, write } from "../io.js";
import { printJson } from "../output.js";

export const examples = [
  "temper report runs/sst2-standard-seed0",
  "temper report runs/spam-standard-seed0 runs/spam-ascc-seed0 --out spam.html",
];

export function define(command: Command, io: Io): void {
  command
    .argument("<runs...>", "run folders, or folders of runs")
    .option("--out <file>", "HTML file to write", "report.html")
    .option("--title <text>", "title of the page (default: the tasks)")
    .option("--json", "print the counts of the report as JSON")
    .action(async (runs, { out, title = null, json }) => {
      const result = await writeReport({ runs, out, title });
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
