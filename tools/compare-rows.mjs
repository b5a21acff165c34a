#!/usr/bin/env node
// Compares pairs of rows of a sweep over its seeds.
//   node tools/compare-rows.mjs OUT/table.json --columns sst2-500,mr-500 --pairs ascc-1:plain-ascc-1,rose:standard
// A row per pair and metric: the difference in each column, and a test of the mean over the columns, one number per seed.
// The tests are paired and two-sided, with Holm's correction over all of them.
import { parseArgs } from "node:util";
import { compareSeeds, createRowReader, formatDifference, formatPercent, holmCorrection, mean } from "./seed-tests.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    columns: { type: "string" },
    pairs: { type: "string" },
    metrics: { type: "string", default: "pwws,accuracy" },
  },
});
if (positionals.length !== 1 || !values.columns || !values.pairs) {
  console.error("usage: compare-rows.mjs TABLE.json --columns ID,… --pairs ROW:ROW,… [--metrics pwws,accuracy]");
  process.exit(2);
}
const { readValues } = createRowReader(positionals[0]);
const columns = values.columns.split(",");
const tests = values.pairs.split(",").flatMap((pair) =>
  values.metrics.split(",").map((metric) => {
    const sides = pair.split(":").map((row) => columns.map((column) => readValues(row, column, metric)));
    const averages = sides.map((side) => side[0].map((_, seed) => mean(side.map((seeds) => seeds[seed]))));
    const [first, second] = sides;
    const perColumn = columns.map((_, i) => formatPercent(mean(first[i]) - mean(second[i])));
    return { name: pair.replace(":", " - "), metric, perColumn, ...compareSeeds(...averages) };
  }),
);
const corrected = holmCorrection(tests.map(({ p }) => p));
const header = ["rows", "metric", "first", "second", ...columns, "mean difference", "p", "p, Holm"];
console.log(`| ${header.join(" | ")} |\n${"|---".repeat(header.length)}|`);
for (const [i, { name, metric, first, second, perColumn, p }] of tests.entries()) {
  const means = [first, second].map((side) => formatPercent(mean(side)));
  const difference = formatDifference({ first, second });
  const cells = [name, metric, ...means, ...perColumn, difference, p.toFixed(4), corrected[i].toFixed(3)];
  console.log(`| ${cells.join(" | ")} |`);
}
