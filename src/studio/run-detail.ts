import { formatAttackCommands } from "../actions/attack/format-attack-commands.js";
import { formatTrainCommand } from "../actions/train/format-train-command.js";
import { listSettings } from "../analysis/run-labels.js";
import { capitalize } from "../base/format.js";
import { describeMetric, formatWithUnit } from "../evaluation/metric-table.js";
import { worstCaseId } from "../evaluation/worst-case.js";
import { compareGroups } from "../report/comparison.js";
import { groupRuns } from "../report/groups.js";
import { type Html, html, renderFacts, renderTable } from "../report/html.js";
import { type ReportRun, readReportRun } from "../report/report-run.js";
import { renderCertificatesSection } from "../report/sections/certificates.js";
import { renderComparisonSection, renderVerdict } from "../report/sections/comparison.js";
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
    results: renderResults(report, row).text,
    background: renderBackground(report).text,
  };
}

/** The run as a report compares it, and the numbers that are no fractions of texts. */
function renderResults(report: ReportRun, { bestValidation, metricForBestModel }: RunRow): Html {
  const [task] = groupRuns([report]);
  const rows = compareGroups(task!);
  const scores = [...report.metrics].filter(([id, { outcomes }]) => outcomes === null && id !== worstCaseId);
  const metric = metricForBestModel ?? "accuracy";
  const best = bestValidation === null ? "nothing" : `${metric} ${formatWithUnit(metric, bestValidation)} at best`;
  const certificates = renderCertificatesSection([report]);
  const curves = renderCurvesSection(task!, true);
  return html`
${
  report.metrics.size > 0
    ? html`${renderVerdict(task!, rows)}${renderComparisonSection(task!, rows)}`
    : html`<p class="note">Measured so far: ${best}.</p>`
}
${renderFacts(scores.map(([id, { value }]) => [capitalize(describeMetric(id).title), formatWithUnit(id, value)]))}
${certificates && html`<h2>Certificates</h2>${certificates}`}
<h2>Training</h2>${curves ?? html`<p class="note">No optimizer step yet.</p>`}`;
}

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
