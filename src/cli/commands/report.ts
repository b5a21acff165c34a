import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { createFileError, writeFileAtomic } from "../../files.js";
import { formatBytes, formatCount } from "../../format.js";
import { createReport, type Report } from "../../report/index.js";
import { type Io, write } from "../io.js";
import { formatHelpExamples, jsonOption } from "../options.js";
import { printJson } from "../output.js";

export function define(command: Command, io: Io): void {
  command
    .argument("<runs...>", "run folders, or folders of runs")
    .option("--out <file>", "the HTML file to write", "report.html")
    .addOption(jsonOption("print what went into the report as JSON"))
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper report runs/sst2-standard-seed0",
        "temper report runs/spam-standard-seed0 runs/spam-ascc-seed0 --out spam.html",
      ),
    )
    .action((folders, options) => report(io, folders, options));
}

async function report(
  io: Io,
  folders: readonly string[],
  { out, json }: { out: string; json?: true | undefined },
): Promise<void> {
  if (!/\.html?$/i.test(out))
    throw new UserError(`--out: expected the name of an HTML file (report.html), received ${out}`);
  const made = await createReport(folders);
  await mkdir(dirname(resolve(out)), { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, out, "write");
  });
  await writeFileAtomic(out, made.html);
  const { html, ...counts } = made;
  const bytes = Buffer.byteLength(html);
  if (json) return printJson(io, { out, bytes, ...counts });
  await write(io.stdout, `${out}: ${formatContents(counts)} (${formatBytes(bytes)}, one file, loads nothing)\n`);
}

function formatContents({ runs, attacks, examples: texts, figures }: Omit<Report, "html">): string {
  const parts: [number, string][] = [
    [runs, "run"],
    [attacks, "attack"],
    [texts, "attacked text"],
    [figures, "figure"],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${formatCount(count)} ${name}${count === 1 ? "" : "s"}`)
    .join(", ");
}
