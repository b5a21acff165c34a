import { assignColors } from "../../analysis/colors.js";
import { type BandPoint, downsample, drawLine, joinSeeds, type Point, plotPanel } from "../../analysis/plot-panel.js";
import { capitalize, formatPercent } from "../../base/format.js";
import { groupBy } from "../../base/group-by.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import { computePrecision } from "../../evaluation/operating-points.js";
import type { TaskGroups } from "../groups.js";
import { type Html, html, renderFacts, renderLegend, trustHtml } from "../html.js";
import type { ReportRun } from "../report-run.js";

interface CurveSeries {
  readonly name: string;
  readonly color: string;
  readonly points: readonly Point[];
}

interface LoggedRun {
  readonly name: string;
  readonly logged: ReadonlyMap<string, readonly Point[]>;
}

interface ChartOptions {
  readonly title: string;
  /** Label of the y axis. Default: none. */
  readonly label?: string;
  /** Label of the x axis. Default: step. */
  readonly x?: string;
  readonly percent?: boolean;
  /** Marks every point, for values that are measured rarely. */
  readonly dots?: boolean;
}

/** Names of values that were measured on the validation split begin with it. */
const validation = "validation ";

/**
 * Shows the training, with one color per method: the loss and the validation metrics that matter,
 * and if wanted all other values that were logged. Several seeds are one line in a band.
 */
export function renderCurvesSection({ groups }: TaskGroups<ReportRun>, showsAll = false): Html | null {
  const colors = assignColors(groups.map(({ name, runs: [first] }) => ({ method: first!.run.method, label: name })));
  const runs = groups.flatMap(({ runs: seeds, name }, i) =>
    seeds.map((run) => ({ run, color: colors[i]!, name, logged: listLoggedValues(run) })),
  );
  const keys = new Set(runs.flatMap(({ logged }) => [...logged.keys()]));
  if (!keys.has("loss")) return null;
  const main = new Set(runs.map(({ run }) => `${validation}${run.run.config.train.metricForBestModel}`));
  const isMain = (key: string): boolean => key === "loss" || main.has(key) || key.startsWith(`${validation}robust`);
  // The other metrics of the validation split are in the results.
  const isMinor = (key: string): boolean => !key.startsWith(validation) || key === `${validation}loss`;
  const others = [...keys].filter((key) => showsAll && !isMain(key) && isMinor(key));
  const shown = [...[...keys].filter(isMain), ...others];
  const isCurve = (key: string): boolean => runs.some(({ logged }) => (logged.get(key)?.length ?? 0) > 1);
  return html`${renderLegend(groups.map(({ name }, i) => ({ color: colors[i]!, label: name })))}
<div class="charts">
${shown.filter(isCurve).map((key) =>
  renderLineChart(
    runs.map(({ logged, ...look }) => ({ ...look, points: logged.get(key) ?? [] })),
    describeValue(key),
  ),
)}
${renderPrecisionRecall(
  groups,
  runs.map(({ run, ...look }) => ({ ...look, points: getPrecisionRecallPoints(run) })),
)}
</div>
${renderFacts(shown.filter((key) => !isCurve(key)).map((key) => renderSingle(key, runs)))}`;
}

/** A value that was measured once says more as a number than as a dot in a chart. */
function renderSingle(key: string, runs: readonly LoggedRun[]): [string, string] {
  const { title, percent } = describeValue(key);
  const values = runs.flatMap(({ name, logged }) =>
    (logged.get(key) ?? []).map(({ y }) => `${name} ${percent ? formatPercent(y) : y.toPrecision(3)}`),
  );
  return [title, values.join(", ")];
}

/** Every number that a training logged, by its name. Those of single layers are left out. */
function listLoggedValues({ events }: ReportRun): ReadonlyMap<string, Point[]> {
  const logged = new Map<string, Point[]>();
  for (const { step, epoch: _, evaluation, distance, ...values } of events) {
    const measured = Object.entries(evaluation ?? {}).map(([id, value]) => [`${validation}${id}`, value] as const);
    const own = Object.entries(values).filter(([key]) => key.split(".").length <= 2);
    const moved = (distance as Record<string, unknown> | undefined)?.all;
    for (const [key, y] of [...own, ...measured, ["distance", moved] as const]) {
      // NaN, from a training that diverged, is null in a file.
      if (typeof y !== "number") continue;
      const points = logged.get(key) ?? [];
      points.push({ x: step, y });
      logged.set(key, points);
    }
  }
  // A single term is the same as the loss.
  const terms = [...logged.keys()].filter((key) => key.startsWith("loss."));
  if (terms.length === 1) logged.delete(terms[0]!);
  return logged;
}

const titles: Readonly<Record<string, string>> = {
  loss: "Training loss, all terms",
  learningRate: "Learning rate",
  gradientNorm: "Gradient norm",
  distance: "Relative distance from the pre-trained weights",
};

function describeValue(key: string): ChartOptions {
  if (!key.startsWith(validation)) return { title: titles[key] ?? key };
  const id = key.slice(validation.length);
  const { title, unit } = id === "loss" ? ({ title: "loss", unit: "nats" } as const) : describeMetric(id);
  const percent = unit !== "nats";
  const label = percent ? `${title} (%)` : title;
  return { title: `${capitalize(title)} on the validation split`, label, percent, dots: true };
}

/** The threshold of a classifier trades recall for precision. */
function renderPrecisionRecall(groups: TaskGroups<ReportRun>["groups"], series: readonly CurveSeries[]): Html | null {
  const label = groups[0]?.runs[0]?.results?.test.positiveLabel;
  if (series.every(({ points }) => points.length === 0) || label == null) return null;
  const title = `Precision and recall of ${label} on the test split`;
  return renderLineChart(series, { title, x: "recall (%)", label: "precision (%)", percent: true });
}

function getPrecisionRecallPoints({ results }: ReportRun): CurveSeries["points"] {
  const found = results?.test.operatingPoints;
  return (found?.curve ?? []).map((point) => ({ x: 100 * point.recall, y: computePrecision(point, found!) })).reverse();
}

/** Draws lines over the steps, the seeds of each name in a band. */
function renderLineChart(
  series: readonly CurveSeries[],
  { title, label, x = "step", percent = false, dots = false }: ChartOptions,
): Html {
  const measured = series.filter(({ points }) => points.length > 0);
  const lines = [...groupBy(measured, ({ name }) => name)].map(([name, seeds]) => ({
    name,
    color: seeds[0]!.color,
    r: dots ? 3 : 0,
    points: joinSeeds(seeds.map(({ points }) => downsample(points))),
  }));
  const { content } = plotPanel(title, {
    width: 480,
    height: 240,
    // The ticks of a learning rate have seven characters.
    marginLeft: 64,
    x: { label: x, zero: true },
    y: { label: label ?? null, grid: true, nice: true, ...(percent && { percent }) },
    marks: lines.map(({ points, ...look }) => drawLine(points, look)),
  });
  const description = html`<span class="sr-only">: ${lines.map(describeSeries).join("; ")}</span>`;
  // Names inside the chart are text nodes, which Plot escapes.
  const chart = html`<div aria-hidden="true">${trustHtml(content)}</div>`;
  return html`<figure class="chart"><figcaption>${title}${description}</figcaption>${chart}</figure>`;
}

function describeSeries({ name, points }: { name: string; points: readonly BandPoint[] }): string {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return name;
  return `${name} from ${first.y.toPrecision(3)} to ${last.y.toPrecision(3)} at step ${last.x}`;
}
