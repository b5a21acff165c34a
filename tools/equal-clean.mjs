#!/usr/bin/env node
// Compares two methods at equal clean accuracy. Each method has several strengths, which are rows of a sweep.
//   node tools/equal-clean.mjs OUT/table.json --column sst2-1000 --first rift-2,rift-5,rift-20 --second ptwd-1,ptwd-3
// Per seed, each curve is interpolated linearly between its strengths. The difference is taken at clean accuracies that
// the curves of all seeds reach, and tested over the seeds (paired, two-sided), with Holm's correction over the points.
// The last line tests the mean over the points, one number per seed.
//   --figure FILE.svg [--others standard,mixout]   draws both curves, and other rows as points
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

const root = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const { mean, pairedTTest, holmCorrection, standardDeviation } = await import(
  resolve(root, "dist/evaluation/statistics.js")
);
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    column: { type: "string" },
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
    "usage: equal-clean.mjs TABLE.json [--column ID] --first ROW,… --second ROW,… [--metric pwws] [--points 4] " +
      "[--figure FILE.svg] [--others ROW,…]",
  );
  process.exit(2);
}
// OUT/table.json is a table; `temper table --json` prints a list of them.
const [table] = [JSON.parse(readFileSync(positionals[0], "utf8"))].flat();
const column = values.column ?? table.columns[0].id;
const count = table.seeds.length;

function findRow(name) {
  const row = table.rows.find(({ id }) => id === name);
  if (row) return row;
  console.error(`there is no row ${name}; the rows are ${table.rows.map(({ id }) => id).join(", ")}`);
  process.exit(2);
}

const readCells = ({ cells }) => [cells[`${column}/accuracy`], cells[`${column}/${values.metric}`]];

/** The points of a method for one seed, by clean accuracy. */
function readCurve(names, seed) {
  return names
    .split(",")
    .map((name) => readCells(findRow(name)).map((cell) => cell?.values[seed]))
    .filter((point) => point.every((value) => typeof value === "number"))
    .sort(([a], [b]) => a - b);
}

function interpolate(curve, clean) {
  const after = curve.findIndex(([x]) => x >= clean);
  if (after <= 0) return curve[Math.max(after, 0)][1];
  const [[x0, y0], [x1, y1]] = [curve[after - 1], curve[after]];
  return x1 === x0 ? y1 : y0 + ((clean - x0) / (x1 - x0)) * (y1 - y0);
}

const seeds = Array.from({ length: count }, (_, seed) => seed);
const curves = [values.first, values.second].map((names) => seeds.map((seed) => readCurve(names, seed)));
const low = Math.max(...curves.flat().map((curve) => curve[0][0]));
const high = Math.min(...curves.flat().map((curve) => curve.at(-1)[0]));
if (!(low < high)) {
  console.error(`the curves of all seeds have no clean accuracy in common (${low} to ${high})`);
  process.exit(1);
}
const total = Number(values.points);
/** The two methods with one value per seed, and the p-value of their difference. */
function test(clean, first, second) {
  const { p } = pairedTTest(first, second);
  // The function is one-sided.
  return { clean, first, second, p: Math.min(1, 2 * Math.min(p, 1 - p)) };
}
const percent = (value) => (100 * value).toFixed(1);
const rows = Array.from({ length: total }, (_, i) => {
  const clean = low + ((high - low) * (total === 1 ? 0.5 : i)) / Math.max(1, total - 1);
  return test(percent(clean), ...curves.map((all) => all.map((curve) => interpolate(curve, clean))));
});
const corrected = holmCorrection(rows.map(({ p }) => p));
const [first, second] = ["first", "second"].map((side) =>
  seeds.map((seed) => mean(rows.map((row) => row[side][seed]))),
);
console.log(`| clean | ${values.first} | ${values.second} | difference | p | p, Holm |\n|---|---|---|---|---|---|`);
for (const [i, row] of [...rows, test("mean", first, second)].entries()) {
  const differences = row.first.map((value, seed) => value - row.second[seed]);
  console.log(
    `| ${row.clean} | ${percent(mean(row.first))} | ${percent(mean(row.second))} | ` +
      `${percent(mean(differences))} ± ${percent(standardDeviation(differences))} | ${row.p.toFixed(3)} | ${corrected[i]?.toFixed(3) ?? "–"} |`,
  );
}
if (values.figure) writeFileSync(values.figure, await drawFigure());

/** Both curves and the other rows: means over the seeds with their standard deviations. */
async function drawFigure() {
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
        const [clean, attacked] = readCells(findRow(name)).map(({ values: all }) => all.map((value) => 100 * value));
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
      `Means over ${count} seeds; the lines through a point are the standard deviations of both numbers. Up and to the right is ` +
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
