import { colorOf } from "../analysis/style.js";
import { lineChart, type Series } from "./curves.js";
import type { TaskGroups } from "./groups.js";
import { type Html, html } from "./html.js";
import type { ReportRun } from "./read-run.js";

/** How training went: the loss, and what the selection split said. One colour a method, one line a seed. */
export function curvesSection({ groups }: TaskGroups): Html | null {
  const runs = groups.flatMap(({ runs: seeds, name }, color) =>
    seeds.map((run) => ({ run, color, name: nameOf(name, run, seeds.length) })),
  );
  const series = (of: (run: ReportRun) => Series["points"], dots = false): Series[] =>
    runs.map(({ run, color, name }) => ({ name, color, points: of(run), dots })).filter(({ points }) => points.length > 0);
  const losses = series(lossOf);
  if (losses.length === 0) return null;
  const metrics = [...new Set(runs.flatMap(({ run }) => [run.config.train.selectBy, ...robustMetrics(run)]))];
  return html`
<ul class="legend" aria-label="Colours of the charts">${groups.map(({ name }, i) => html`<li style="--swatch:${colorOf(i)}">${name}</li>`)}</ul>
<div class="charts">
${lineChart(losses, { title: "Loss of each step, all terms together", label: "loss" })}
${metrics.flatMap((metric) => {
  const measured = series((run) => evaluationsOf(run, metric), true);
  return measured.length > 0
    ? [
        lineChart(measured, {
          title: `${capital(metric)} on the texts that select`,
          label: isShare(metric) ? `${metric} (%)` : metric,
          share: isShare(metric),
        }),
      ]
    : [];
})}
</div>`;
}

function nameOf(group: string, { config }: ReportRun, seeds: number): string {
  return seeds > 1 ? `${group}, seed ${config.seed}` : group;
}

function lossOf({ events }: ReportRun): Series["points"] {
  return events.flatMap(({ step, loss }) => (typeof loss === "number" ? [{ step, value: loss }] : []));
}

function evaluationsOf({ events }: ReportRun, metric: string): Series["points"] {
  return events.flatMap(({ step, evaluation }) => {
    // What is no number (of a training that diverged) is null in a file.
    const value: unknown = evaluation?.[metric];
    return typeof value === "number" ? [{ step, value }] : [];
  });
}

function robustMetrics({ events }: ReportRun): string[] {
  const last = events.findLast(({ evaluation }) => evaluation)?.evaluation ?? {};
  return Object.keys(last).filter((name) => name.startsWith("robust"));
}

function isShare(metric: string): boolean {
  return /accuracy|f1/i.test(metric);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
