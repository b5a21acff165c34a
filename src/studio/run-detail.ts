import { formatAttackCommands } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../actions/train/format-train-command.js";
import { listSettings } from "../analysis/run-labels.js";
import { type Html, html, renderTable } from "../report/html.js";
import { type ReportRun, readReportRun } from "../report/report-run.js";
import { renderCertificatesSection } from "../report/sections/certificates.js";
import { renderFiguresSection } from "../report/sections/figures.js";
import { listFacts, renderAttackTable } from "../report/sections/runs.js";
import { RunFolder } from "../runs/run-folder.js";
import { runConfigSchema } from "../settings/config.js";
import type { RunDetail, RunRow } from "./api.js";
import { readCharts } from "./charts.js";

/** Reads everything that the page of one run shows. */
export async function readRunDetail(row: RunRow): Promise<RunDetail> {
  const run = await RunFolder.open(row.folder);
  const [report, charts] = await Promise.all([readReportRun(run), readCharts(run)]);
  const { degeneracy, warnings, attacks } = report;
  const labels = report.labels.length > 0 ? report.labels : (report.results?.test.labels ?? []);
  return {
    row,
    charts,
    labels,
    journals: [...attacks.journals].map(([name, { results, header }]) => {
      return { name, done: results.length, total: header.examples };
    }),
    attackTable: renderAttackTable(attacks, labels)?.text ?? null,
    commands: [formatTrainCommand(run), ...formatAttackCommands(run, attacks)],
    warnings: [
      ...(report.failure === null ? [] : [report.failure]),
      ...(degeneracy === null ? [] : [`The model is degenerate: ${degeneracy}.`]),
      ...warnings.map(({ message }) => message).filter((message) => !message.startsWith("The model is degenerate")),
    ],
    bounds: renderCertificatesSection([report])?.text ?? null,
    background: renderBackground(report).text,
  };
}

/** The figures of a run, its settings, and where it was trained. */
function renderBackground(report: ReportRun): Html {
  const { config, folder } = report.run;
  const defaults = listSettings(runConfigSchema.parse({ model: config.model }));
  const settings = Object.entries(listSettings(config));
  const changed = settings.filter(([key, value]) => value !== defaults[key]);
  const others = settings.filter(([key, value]) => value === defaults[key]);
  const figures = renderFiguresSection([report]);
  const facts = [...listFacts(report), ["Folder", folder]];
  return html`${figures && html`<h2>Figures</h2>${figures}`}
<h2>Settings</h2>
${renderTable(
  "Settings that differ from the defaults",
  ["setting", "value", "default"],
  changed.map(([key, value]) => [key, value, defaults[key] ?? ""]),
)}
<details><summary>${others.length} settings with their defaults</summary>
${renderTable("Settings with their defaults", ["setting", "value"], others)}</details>
<dl>${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
