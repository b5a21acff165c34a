import { assignColors } from "../../analysis/colors.js";
import { type BandPoint, downsample, drawLine, joinSeeds, type Point, plotPanel } from "../../analysis/plot-panel.js";
import { capitalize } from "../../base/format.js";
import { groupBy } from "../../base/group-by.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import { computePrecision } from "../../evaluation/operating-points.js";
import type { TaskGroups } from "../groups.js";
import { type Html, html, trustHtml } from "../html.js";
import type { ReportRun } from "../report-run.js";

/** One line of a chart. Lines with the same name are its seeds. */
interface CurveSeries {
  readonly name: string;
  readonly color: string;
  readonly points: readonly Point[];
  /** Marks every point, for values that are measured rarely. */
  readonly dots: boolean;
}

interface ChartOptions {
  readonly title: string;
  /** Label of the y axis. */
  readonly label: string;
  /** Label of the x axis. Default: step. */
  readonly x?: string;
  /** Shows fractions as percentages. */
  readonly percent?: boolean;
}

/**
 * Shows the training: the loss and the validation metrics, with one color per method. Several seeds
 * are one line in a band.
 */
export function renderCurvesSection({ groups }: TaskGroups<ReportRun>): Html | null {
  const colors = assignColors(groups.map(({ name, runs: [first] }) => ({ method: first!.run.method, label: name })));
  const runs = groups.flatMap(({ runs: seeds, name }, i) => seeds.map((run) => ({ run, color: colors[i]!, name })));
  const createSeries = (getPoints: (run: ReportRun) => CurveSeries["points"], dots = false): CurveSeries[] =>
    runs
      .map(({ run, color, name }) => ({ name, color, points: getPoints(run), dots }))
      .filter(({ points }) => points.length > 0);
  const losses = createSeries(getLossPoints);
  if (losses.length === 0) return null;
  const metrics = [
    ...new Set(runs.flatMap(({ run }) => [run.run.config.train.metricForBestModel, ...listRobustMetrics(run)])),
  ];
  const legend = groups.map(({ name }, i) => html`<li style="--swatch:${colors[i]!}">${name}</li>`);
  return html`
<ul class="legend" aria-label="Colors of the charts">${legend}</ul>
<div class="charts">
${renderLineChart(losses, { title: "Training loss, all terms", label: "loss" })}
${metrics.flatMap((id) => {
  const series = createSeries((run) => getMetricPoints(run, id), true);
  const { title, unit } = describeMetric(id);
  const percent = unit !== "nats";
  const options = {
    title: `${capitalize(title)} on the validation split`,
    label: percent ? `${title} (%)` : title,
    percent,
  };
  return series.length > 0 ? [renderLineChart(series, options)] : [];
})}
${renderPrecisionRecall(groups, createSeries(getPrecisionRecallPoints))}
</div>`;
}

function getLossPoints({ events }: ReportRun): CurveSeries["points"] {
  return events.flatMap(({ step, loss }) => (typeof loss === "number" ? [{ x: step, y: loss }] : []));
}

/** The threshold of a classifier trades recall for precision, as `temper evaluate --threshold` does. */
function renderPrecisionRecall(groups: TaskGroups<ReportRun>["groups"], series: readonly CurveSeries[]): Html | null {
  const label = groups[0]?.runs[0]?.results?.test.positiveLabel;
  if (series.length === 0 || label == null) return null;
  const title = `Precision and recall of ${label} on the test split`;
  return renderLineChart(series, { title, x: "recall (%)", label: "precision (%)", percent: true });
}

function getPrecisionRecallPoints({ results }: ReportRun): CurveSeries["points"] {
  const found = results?.test.operatingPoints;
  return (found?.curve ?? []).map((point) => ({ x: 100 * point.recall, y: computePrecision(point, found!) })).reverse();
}

function getMetricPoints({ events }: ReportRun, metric: string): CurveSeries["points"] {
  return events.flatMap(({ step, evaluation }) => {
    // NaN, from a training that diverged, is null in a file.
    const value: unknown = evaluation?.[metric];
    return typeof value === "number" ? [{ x: step, y: value }] : [];
  });
}

function listRobustMetrics({ events }: ReportRun): string[] {
  const last = events.findLast(({ evaluation }) => evaluation)?.evaluation ?? {};
  return Object.keys(last).filter((name) => name.startsWith("robust"));
}

/** Draws lines over the steps, the seeds of each name in a band. */
function renderLineChart(
  series: readonly CurveSeries[],
  { title, label, x = "step", percent = false }: ChartOptions,
): Html {
  const lines = [...groupBy(series, ({ name }) => name)].map(([name, seeds]) => ({
    name,
    color: seeds[0]!.color,
    r: seeds[0]!.dots ? 3 : 0,
    points: joinSeeds(seeds.map(({ points }) => downsample(points))),
  }));
  const { content } = plotPanel(title, {
    width: 480,
    height: 240,
    x: { label: x, zero: true },
    y: { label, grid: true, nice: true, ...(percent && { percent }) },
    marks: lines.map(({ points, ...look }) => drawLine(points, look)),
  });
  const description = html`<span class="sr-only">: ${lines.map(describeSeries).join("; ")}</span>`;
  // Names inside the chart are text nodes, which Plot escapes.
  const chart = html`<div aria-hidden="true">${trustHtml(content)}</div>`;
  return html`<figure class="chart"><figcaption>${title}${description}</figcaption>${chart}</figure>`;
}

/** Describes a line in words, for screen readers. */
function describeSeries({ name, points }: { name: string; points: readonly BandPoint[] }): string {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return name;
  return `${name} from ${first.y.toPrecision(3)} to ${last.y.toPrecision(3)} at step ${last.x}`;
}
