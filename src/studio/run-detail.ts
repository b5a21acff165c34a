import { formatAttackCommands } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../actions/train/format-train-command.js";
import { listSettings } from "../analysis/run-labels.js";
import { groupRuns } from "../report/groups.js";
import { type Html, html, renderFacts, renderTable } from "../report/html.js";
import { type ReportRun, readReportRun } from "../report/report-run.js";
import { renderCertificatesSection } from "../report/sections/certificates.js";
import { renderCurvesSection } from "../report/sections/curves.js";
import { renderFiguresSection } from "../report/sections/figures.js";
import { listFacts, renderAttackTable } from "../report/sections/runs.js";
import { RunFolder } from "../runs/run-folder.js";
import { runConfigSchema } from "../settings/config.js";
import type { RunDetail, RunRow } from "./api.js";

export async function readRunDetail(row: RunRow): Promise<RunDetail> {
  const run = await RunFolder.open(row.folder);
  const report = await readReportRun(run);
  const { degeneracy, warnings, attacks, labels } = report;
  return {
    row,
    journals: [...attacks.journals].map(([name, { results, header }]) => {
      return { name, done: results.length, total: header.examples };
    }),
    attackTable: renderAttackTable(attacks, labels)?.text ?? null,
    commands: [formatTrainCommand(run), ...formatAttackCommands(run, attacks)],
    warnings: [
      ...(report.failure === null ? [] : [report.failure]),
      ...(degeneracy === null ? [] : [`The model is degenerate: ${degeneracy}.`]),
      ...warnings.filter((message) => !message.startsWith("The model is degenerate")),
    ],
    training: renderTraining(report).text,
    background: renderBackground(report).text,
  };
}

function renderTraining(report: ReportRun): Html {
  const certificates = renderCertificatesSection([report]);
  const curves = renderCurvesSection(groupRuns([report])[0]!, true);
  return html`${certificates && html`<h2>Certificates</h2>${certificates}`}
<h2>Training</h2>${curves ?? html`<p class="note">No optimizer step yet.</p>`}`;
}

/** The figures of a run, its settings, and where it was trained. */
function renderBackground(report: ReportRun): Html {
  const { config, folder } = report.run;
  const defaults = listSettings(runConfigSchema.parse({ model: config.model }));
  const settings = Object.entries(listSettings(config));
  const changed = settings.filter(([key, value]) => value !== defaults[key]);
  const figures = renderFiguresSection([report]);
  return html`${figures && html`<h2>Figures</h2>${figures}`}
<h2>Settings</h2>
${renderTable(
  "Settings that differ from the defaults",
  ["setting", "value", "default"],
  changed.map(([key, value]) => [key, value, defaults[key] ?? ""]),
)}
<details><summary>All settings</summary>${renderTable("All settings", ["setting", "value"], settings)}</details>
${renderFacts([...listFacts(report), ["Folder", folder]])}`;
}
