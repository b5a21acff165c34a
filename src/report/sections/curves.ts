import { getColor } from "../../analysis/colors.js";
import { renderLineChart, type Series } from "../curves.js";
import type { TaskGroups } from "../groups.js";
import { type Html, html } from "../html.js";
import type { ReportRun } from "../read-run.js";

/** How training went: the loss, and what the selection split said. One colour a method, one line a seed. */
export function renderCurvesSection({ groups }: TaskGroups): Html | null {
  const runs = groups.flatMap(({ runs: seeds, name }, color) =>
    seeds.map((run) => ({ run, color, name: formatSeriesName(name, run, seeds.length) })),
  );
  const series = (of: (run: ReportRun) => Series["points"], dots = false): Series[] =>
    runs
      .map(({ run, color, name }) => ({ name, color, points: of(run), dots }))
      .filter(({ points }) => points.length > 0);
  const losses = series(getLossPoints);
  if (losses.length === 0) return null;
  const metrics = [
    ...new Set(runs.flatMap(({ run }) => [run.config.train.metricForBestModel, ...listRobustMetrics(run)])),
  ];
  return html`
<ul class="legend" aria-label="Colours of the charts">${groups.map(({ name }, i) => html`<li style="--swatch:${getColor(i)}">${name}</li>`)}</ul>
<div class="charts">
${renderLineChart(losses, { title: "Loss of each step, all terms together", label: "loss" })}
${metrics.flatMap((metric) => {
  const measured = series((run) => getMetricPoints(run, metric), true);
  return measured.length > 0
    ? [
        renderLineChart(measured, {
          title: `${capitalize(metric)} on the texts that select`,
          label: isFraction(metric) ? `${metric} (%)` : metric,
          percent: isFraction(metric),
        }),
      ]
    : [];
})}
</div>`;
}

function formatSeriesName(group: string, { config }: ReportRun, seeds: number): string {
  return seeds > 1 ? `${group}, seed ${config.seed}` : group;
}

function getLossPoints({ events }: ReportRun): Series["points"] {
  return events.flatMap(({ step, loss }) => (typeof loss === "number" ? [{ step, value: loss }] : []));
}

function getMetricPoints({ events }: ReportRun, metric: string): Series["points"] {
  return events.flatMap(({ step, evaluation }) => {
    // What is no number (of a training that diverged) is null in a file.
    const value: unknown = evaluation?.[metric];
    return typeof value === "number" ? [{ step, value }] : [];
  });
}

function listRobustMetrics({ events }: ReportRun): string[] {
  const last = events.findLast(({ evaluation }) => evaluation)?.evaluation ?? {};
  return Object.keys(last).filter((name) => name.startsWith("robust"));
}

function isFraction(metric: string): boolean {
  return /accuracy|f1/i.test(metric);
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
