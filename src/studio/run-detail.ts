import { formatAttackCommands } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../actions/train/format-train-command.js";
import { formatSpec } from "../base/spec.js";
import { type ReportRun, readReportRun } from "../report/report-run.js";
import { renderCertificatesSection } from "../report/sections/certificates.js";
import { listFacts, renderAttackTable } from "../report/sections/runs.js";
import { RunFolder } from "../runs/run-folder.js";
import { type RunConfig, runConfigSchema } from "../settings/config.js";
import type { JournalInfo, RunDetail, RunRow, Setting } from "./api.js";
import { readCharts } from "./charts.js";

/** Reads everything that the page of one run shows. */
export async function readRunDetail(row: RunRow): Promise<RunDetail> {
  const run = await RunFolder.open(row.folder);
  const [report, charts] = await Promise.all([readReportRun(run), readCharts(run)]);
  const { degeneracy, warnings } = report;
  const labels = report.labels.length > 0 ? report.labels : (report.results?.test.labels ?? []);
  return {
    row,
    facts: [...listFacts(report), ["Folder", run.folder]],
    charts,
    settings: listSettings(run.config),
    labels,
    journals: listJournals(report),
    attackTable: renderAttackTable(report.attacks, labels)?.text ?? null,
    figures: report.figures.map(({ title, summary, svg }) => ({
      title,
      summary,
      // An image cannot run scripts or load anything.
      source: `data:image/svg+xml;base64,${svg.toString("base64")}`,
    })),
    commands: [formatTrainCommand(run), ...formatAttackCommands(run, report.attacks)],
    warnings: [
      ...(report.failure === null ? [] : [report.failure]),
      ...(degeneracy === null ? [] : [`The model is degenerate: ${degeneracy}.`]),
      ...warnings.map(({ message }) => message).filter((message) => !message.startsWith("The model is degenerate")),
    ],
    bounds: renderCertificatesSection([report])?.text ?? null,
  };
}

/** Every setting, those that differ from the defaults first. */
function listSettings(config: RunConfig): Setting[] {
  const defaults = runConfigSchema.parse({ model: config.model });
  const own = flattenConfig(config);
  const standard = flattenConfig(defaults);
  const settings = Object.entries(own).map(([key, value]) => ({
    key,
    value,
    changedFrom: standard[key] === value ? null : (standard[key] ?? ""),
  }));
  return settings.sort((a, b) => Number(a.changedFrom === null) - Number(b.changedFrom === null));
}

function flattenConfig({ train, methods, ...rest }: RunConfig): Record<string, string> {
  const toText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
  return Object.fromEntries([
    ...Object.entries(rest).map(([key, value]) => [key, toText(value)]),
    ["methods", methods.map(formatSpec).join(" + ") || "standard"],
    ...Object.entries(train).map(([key, value]) => [`train.${key}`, toText(value)]),
  ]) as Record<string, string>;
}

function listJournals({ attacks: { journals } }: ReportRun): JournalInfo[] {
  return [...journals].map(([name, { results, header }]) => ({ name, done: results.length, total: header.examples }));
}
