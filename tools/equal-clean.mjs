#!/usr/bin/env node
// Compares two methods at equal clean accuracy. Each method has several strengths, which are rows of a sweep.
//   node tools/equal-clean.mjs OUT/table.json --column sst2-1000 --first rift-2,rift-5,rift-20 --second ptwd-1,ptwd-3
// Per seed, each curve is interpolated linearly between its strengths. The difference is taken at clean accuracies that
// the curves of all seeds reach, and tested over the seeds (paired, two-sided), with Holm's correction over the points.
import { readFileSync } from "node:fs";
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
  },
});
if (positionals.length !== 1 || !values.first || !values.second) {
  console.error(
    "usage: equal-clean.mjs TABLE.json [--column ID] --first ROW,… --second ROW,… [--metric pwws] [--points 4]",
  );
  process.exit(2);
}
// OUT/table.json is a table; `temper table --json` prints a list of them.
const [table] = [JSON.parse(readFileSync(positionals[0], "utf8"))].flat();
const column = values.column ?? table.columns[0].id;
const count = table.seeds.length;

/** The points of a method for one seed, by clean accuracy. */
function readCurve(names, seed) {
  return names
    .split(",")
    .map((name) => {
      const row = table.rows.find(({ id }) => id === name);
      if (!row) {
        console.error(`there is no row ${name}; the rows are ${table.rows.map(({ id }) => id).join(", ")}`);
        process.exit(2);
      }
      return [row.cells[`${column}/accuracy`]?.values[seed], row.cells[`${column}/${values.metric}`]?.values[seed]];
    })
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
const rows = Array.from({ length: total }, (_, i) => {
  const clean = low + ((high - low) * (total === 1 ? 0.5 : i)) / Math.max(1, total - 1);
  const [first, second] = curves.map((all) => all.map((curve) => interpolate(curve, clean)));
  const differences = first.map((value, i) => value - second[i]);
  const { p } = pairedTTest(first, second);
  // The function is one-sided.
  return { clean, first, second, differences, p: Math.min(1, 2 * Math.min(p, 1 - p)) };
});
const corrected = holmCorrection(rows.map(({ p }) => p));
const percent = (value) => (100 * value).toFixed(1);
console.log(`| clean | ${values.first} | ${values.second} | difference | p | p, Holm |\n|---|---|---|---|---|---|`);
for (const [i, { clean, first, second, differences, p }] of rows.entries())
  console.log(
    `| ${percent(clean)} | ${percent(mean(first))} | ${percent(mean(second))} | ` +
      `${percent(mean(differences))} ± ${percent(standardDeviation(differences))} | ${p.toFixed(3)} | ${corrected[i].toFixed(3)} |`,
  );
