#!/usr/bin/env node
// Compares two methods at equal clean accuracy. Each method has several strengths, which are rows of a sweep.
//   node tools/equal-clean.mjs OUT/table.json --columns sst2-1000 --first rift-2,rift-5,rift-20 --second ptwd-1,ptwd-3
// Per seed, each curve is interpolated linearly between its strengths. The difference is taken at clean accuracies that
// the curves of all seeds reach, and tested over the seeds (paired, two-sided), with Holm's correction over the points.
// The last line tests the mean over the points, one number per seed. Several columns also get a test of the mean over them.
//   --figure FILE.svg [--others standard,mixout]   draws both curves of the first column, and other rows as points
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  compareSeeds,
  createRowReader,
  formatDifference,
  formatPercent,
  holmCorrection,
  mean,
  standardDeviation,
} from "./seed-tests.mjs";

const root = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    columns: { type: "string" },
    first: { type: "string" },
    second: { type: "string" },
    metric: { type: "string", default: "pwws" },
    points: { type: "string", default: "4" },
    figure: { type: "string" },
    others: { type: "string" },
  },
});
if (positionals.length !== 1 || !values.first || !values.second) {
  console.error(
    "usage: equal-clean.mjs TABLE.json [--columns ID,…] --first ROW,… --second ROW,… [--metric pwws] [--points 4] " +
      "[--figure FILE.svg] [--others ROW,…]",
  );
  process.exit(2);
}
const { table, findRow, readValues } = createRowReader(positionals[0]);
const columns = values.columns?.split(",") ?? [table.columns[0].id];
const pointCount = Number(values.points);
const seeds = [...table.seeds.keys()];

/** The points of a method for one seed, by clean accuracy. */
function readCurve(names, column, seed) {
  return names
    .split(",")
    .map((name) => ["accuracy", values.metric].map((metric) => readValues(name, column, metric)[seed]))
    .sort(([a], [b]) => a - b);
}

function interpolate(curve, clean) {
  const after = curve.findIndex(([x]) => x >= clean);
  if (after <= 0) return curve[Math.max(after, 0)][1];
  const [[x0, y0], [x1, y1]] = [curve[after - 1], curve[after]];
  return x1 === x0 ? y1 : y0 + ((clean - x0) / (x1 - x0)) * (y1 - y0);
}

/** The mean over rows of the table, per seed and method, as a row of its own. */
function averageRows(name, rows) {
  const [first, second] = ["first", "second"].map((side) =>
    seeds.map((seed) => mean(rows.map((row) => row[side][seed]))),
  );
  return { name, ...compareSeeds(first, second) };
}

/** Both methods at clean accuracies that the curves of all seeds reach. */
function compareColumn(column) {
  const curves = [values.first, values.second].map((names) => seeds.map((seed) => readCurve(names, column, seed)));
  const low = Math.max(...curves.flat().map((curve) => curve[0][0]));
  const high = Math.min(...curves.flat().map((curve) => curve.at(-1)[0]));
  if (!(low < high)) {
    console.error(`${column}: the curves of all seeds have no clean accuracy in common (${low} to ${high})`);
    process.exit(1);
  }
  return Array.from({ length: pointCount }, (_, i) => {
    const clean = low + ((high - low) * (pointCount === 1 ? 0.5 : i)) / Math.max(1, pointCount - 1);
    const at = curves.map((all) => all.map((curve) => interpolate(curve, clean)));
    return { name: formatPercent(clean), ...compareSeeds(...at) };
  });
}

function print(column, rows) {
  const header = `${column}, clean | ${values.first} | ${values.second} | difference | p | p, Holm`;
  console.log(`| ${header} |\n|---|---|---|---|---|---|`);
  for (const row of rows) {
    const means = [row.first, row.second].map((side) => formatPercent(mean(side))).join(" | ");
    console.log(
      `| ${row.name} | ${means} | ${formatDifference(row)} | ${row.p.toFixed(3)} | ${row.corrected?.toFixed(3) ?? "–"} |`,
    );
  }
}

const averages = columns.map((column) => {
  const points = compareColumn(column);
  const corrected = holmCorrection(points.map(({ p }) => p));
  const average = averageRows("mean", points);
  print(column, [...points.map((point, i) => ({ ...point, corrected: corrected[i] })), average]);
  return { ...average, name: column };
});
if (columns.length > 1) {
  const corrected = holmCorrection(averages.map(({ p }) => p));
  print("columns", [...averages.map((row, i) => ({ ...row, corrected: corrected[i] })), averageRows("mean", averages)]);
}
if (values.figure) writeFileSync(values.figure, await drawFigure(columns[0]));

/** Both curves and the other rows: means over the seeds with their standard deviations. */
async function drawFigure(column) {
  const { loadPlot } = await import(resolve(root, "dist/analysis/load-plot.js"));
  const { renderFigure } = await import(resolve(root, "dist/analysis/figure.js"));
  const { getColor } = await import(resolve(root, "dist/analysis/colors.js"));
  const { Plot, plotPanel } = await loadPlot();
  const groups = [values.first, values.second, values.others ?? ""].map((names, group) =>
    names
      .split(",")
      .filter(Boolean)
      .map((name) => {
        const { title } = findRow(name);
        const [clean, attacked] = ["accuracy", values.metric].map((metric) =>
          readValues(name, column, metric).map((value) => 100 * value),
        );
        const [x, y, dx, dy] = [mean(clean), mean(attacked), standardDeviation(clean), standardDeviation(attacked)];
        const label = group === 2 ? title : title.split(" ").at(-1); // the strength
        return { x, y, low: y - dy, high: y + dy, left: x - dx, right: x + dx, title, label, color: getColor(group) };
      })
      .sort((a, b) => a.x - b.x),
  );
  const points = groups.flat();
  const [one, two] = groups.map((group) => group[0]?.title.split(" ").slice(0, -1).join(" "));
  return renderFigure({
    title: `Accuracy under ${values.metric} against clean accuracy`,
    caption:
      `Means over ${seeds.length} seeds; the lines through a point are the standard deviations of both numbers. Up and to the right is ` +
      `better. Numbers are the strengths of ${one} and ${two}.`,
    legend: [one, two].map((label, group) => ({ label, color: getColor(group), shape: "line" })),
    panels: [
      plotPanel("", {
        width: 620,
        height: 420,
        marginRight: 40,
        x: { label: "clean accuracy (%)", grid: true, nice: true },
        y: { label: `accuracy under ${values.metric} (%)`, grid: true, nice: true },
        marks: [
          Plot.ruleX(points, { x: "x", y1: "low", y2: "high", stroke: "color", strokeOpacity: 0.5 }),
          Plot.ruleY(points, { y: "y", x1: "left", x2: "right", stroke: "color", strokeOpacity: 0.5 }),
          ...groups.slice(0, 2).map((group) => Plot.line(group, { x: "x", y: "y", stroke: "color", strokeWidth: 2 })),
          Plot.dot(points, { x: "x", y: "y", fill: "color", r: 4 }),
          // Labels are above the first curve, on both sides below the second, and left below the other points.
          ...groups.map((group, i) => {
            const toRight = (_, k) => i === 0 || (i === 1 && k % 2 === 1);
            return [true, false].map((right) =>
              Plot.text(
                group.filter((point, k) => toRight(point, k) === right),
                {
                  x: "x",
                  y: "y",
                  text: "label",
                  fill: "color",
                  dx: right ? 7 : -7,
                  dy: i === 0 ? -8 : 10,
                  textAnchor: right ? "start" : "end",
                },
              ),
            );
          }),
        ],
      }),
    ],
    columns: 1,
  });
}
