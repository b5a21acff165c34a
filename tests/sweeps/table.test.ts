import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { normalQuantile, studentQuantile } from "../../src/evaluation/special-functions.js";
import { wilsonInterval } from "../../src/evaluation/statistics.js";
import {
  addPublishedNumbers,
  getPublishedValue,
  hasDisjointIntervals,
  readPublishedTable,
  toMarkdown,
} from "../../src/sweeps/render-table.js";
import {
  addSeedTests,
  addSignificanceTests,
  averageCells,
  computeCell,
  type ResultsTable,
} from "../../src/sweeps/table.js";
import { expectClose, float64 } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const measured = (values: readonly (number | null)[], examples: number | null = null) =>
  computeCell(values.map((value) => (value === null ? null : { value, examples })))!;

const table = (rows: ResultsTable["rows"], rest: Partial<ResultsTable> = {}): ResultsTable => ({
  format: 2,
  name: "t",
  title: "T",
  profile: null,
  publishedTable: null,
  baselines: ["a"],
  significance: "examples",
  seeds: [0, 1, 2],
  columns: [{ id: "x", title: "X", metrics: ["accuracy"] }],
  rows,
  notes: [],
  ...rest,
});
const row = (id: string, cell: ReturnType<typeof measured>) => ({
  id,
  title: id.toUpperCase(),
  cells: { "x/accuracy": cell },
  selected: {},
});

/** The 97.5% quantile of Student's t distribution with 2 degrees of freedom, and its tail beyond t. */
const quantileOfTwo = 0.95 * Math.sqrt(2 / (4 * 0.975 * 0.025));
const computeTailOfTwo = (t: number): number => (1 - t / Math.sqrt(t * t + 2)) / 2;
/** A tail is a difference of numbers of size 1. */
const tailRounding = { ...float64, scale: 1 };

describe("a table", () => {
  it("has a mean, a standard deviation and an interval over seeds and examples", () => {
    expectClose(studentQuantile(0.975, 2), quantileOfTwo, float64);
    const seeds = measured([0.8, 0.9, 1]);
    expectClose(seeds.mean, 0.9, float64);
    expectClose(seeds.std!, 0.1, float64);
    expectClose(seeds.interval!.high, 0.9 + (quantileOfTwo * 0.1) / Math.sqrt(3), float64);
    const test = measured([0.4], 81);
    expectClose(test.interval!.low, wilsonInterval(32.4, 81).low, float64);
    const both = measured([0.3, 0.4, 0.5], 81);
    const half = (quantileOfTwo * 0.1) / Math.sqrt(3);
    const low = 0.4 - Math.hypot(half, 0.4 - wilsonInterval(32.4, 81).low);
    expectClose(both.interval!.low, low, { ...float64, scale: 0.4 });
    expect(measured([0.5]).interval).toBeNull();
    expect(computeCell([null, null])).toBeNull();
  });

  it("clamps the interval of a fraction to 0 and 1, and no other interval", () => {
    const few = measured([0.01, 0.02, 0.04], 200);
    expect(few.interval!.low).toBe(0);
    expect(measured([0.97, 0.99, 1], 200).interval!.high).toBe(1);
    expect(averageCells([few, few])!.interval!.low).toBe(0);
    expect(measured([0.1, 0.5, 0.1]).interval!.low).toBeLessThan(0);
  });

  it("averages columns seed by seed", () => {
    const average = averageCells([measured([0.9, 0.8], 100), measured([0.3, 0.4], 100)])!;
    expectClose(average.values as number[], [0.6, 0.6], float64);
    expectClose(average.std!, 0, { ...float64, scale: 0.6 });
    const error = (normalQuantile(0.975) * Math.sqrt((0.85 * 0.15) / 100 + (0.35 * 0.65) / 100)) / 2;
    expectClose(average.interval!.high - average.mean, error, { ...float64, scale: 0.6 });
    expect(averageCells([measured([0.9]), undefined])).toBeNull();
    expect(averageCells([measured([0.9, null]), measured([0.7, 0.5])])!.values).toEqual([0.8, null]);
  });

  it("tests rows against the baseline with a paired t-test and Holm's correction", () => {
    const score = (id: string, values: readonly number[]) => ({
      ...row(id, measured(values)),
      cells: { "x/matthews": measured(values) },
    });
    const rows = addSignificanceTests(
      [score("a", [0.5, 0.6, 0.7]), score("b", [0.61, 0.7, 0.79]), score("c", [0.4, 0.7, 0.6])],
      "a",
    );
    // Differences 0.11, 0.1, 0.09: t = 0.1 / (0.01 / sqrt 3) = 17.32. There are two tests.
    expectClose(rows[1]!.cells["x/matthews"]!.p!, 2 * computeTailOfTwo(10 * Math.sqrt(3)), tailRounding);
    expect(rows[0]!.cells["x/matthews"]!.p).toBeNull();
    expect(rows[2]!.cells["x/matthews"]!.p).toBeGreaterThan(0.5);
    const rendered = toMarkdown(table(rows, { columns: [{ id: "x", title: "X", metrics: ["matthews"] }] }));
    expect(rendered).toMatch(/\| B \| 70\.0 ± 9\.0 \(.*\) \* \|/);
    expect(rendered).toMatch(/\| C \| 56\.7 ± 15\.3 \([^*]*\) \|/);
  });

  it("tests rows against every baseline over the seeds, as ROSE does, without a correction", () => {
    const rows = addSeedTests(
      [
        row("a", measured([0.5, 0.6, 0.7], 100)),
        row("b", measured([0.55, 0.69, 0.71], 100)),
        row("c", measured([0.61, 0.7, 0.79], 100)),
        row("d", measured([0.71, 0.8, 0.89], 100)),
      ],
      ["a", "b"],
    );
    const cells = rows.map(({ cells: all }) => all["x/accuracy"]!);
    // c is significantly better than a (p = 0.00166), but not than b: the differences are 0.06, 0.01 and 0.08.
    expect(cells.map(({ better }) => better)).toEqual([false, false, false, true]);
    expect(cells[0]!.p).toBeNull();
    expectClose(
      cells[2]!.p!,
      computeTailOfTwo(0.05 / Math.sqrt((0.01 ** 2 + 0.04 ** 2 + 0.03 ** 2) / 6)),
      tailRounding,
    );
    expect(addSeedTests(rows.slice(0, 3), ["a"])[2]!.cells["x/accuracy"]).toMatchObject({ better: true });
    const rendered = toMarkdown(table(rows, { baselines: ["a", "b"], significance: "seeds" }));
    expect(rendered).toContain(
      "\\*: significantly better than A, B (one-tailed paired t-test over the seeds, against each",
    );
  });

  it("tests for lower values of a metric whose lower values are better", () => {
    const drop = (values: readonly number[]) => ({ "x/drop": measured(values) });
    const rows = addSignificanceTests(
      [
        { id: "a", title: "a", cells: drop([0.5, 0.6, 0.7]), selected: {} },
        { id: "b", title: "b", cells: drop([0.4, 0.51, 0.59]), selected: {} },
      ],
      "a",
    );
    // Differences 0.1, 0.09, 0.11.
    expectClose(rows[1]!.cells["x/drop"]!.p!, computeTailOfTwo(10 * Math.sqrt(3)), tailRounding);
  });

  it("corrects all tests of a table together: by example, over the seeds, in every column", () => {
    const compared = (p: number, better = true) =>
      ({ ...measured([0.7, 0.8, 0.9], 100), p, test: "bootstrap", better }) as const;
    const base = measured([0.5, 0.6, 0.7]);
    // t = 17.32 as above.
    const score = measured([0.61, 0.7, 0.79]);
    const keys = ["x/accuracy", "x/pwws", "y/accuracy", "y/advglue"];
    const rows = addSignificanceTests(
      [
        { ...row("a", base), cells: Object.fromEntries(keys.map((key) => [key, base])) },
        {
          ...row("b", base),
          cells: {
            "x/accuracy": compared(0.03),
            "x/pwws": compared(0.01),
            "y/accuracy": compared(0.005, false),
            "y/advglue": score,
          },
        },
      ],
      "a",
    );
    const { cells } = rows[1]!;
    const expected = {
      "y/advglue": 4 * computeTailOfTwo(10 * Math.sqrt(3)),
      "y/accuracy": 3 * 0.005,
      "x/pwws": 0.02,
      "x/accuracy": 0.03,
    };
    for (const [key, p] of Object.entries(expected)) expectClose(cells[key]!.p!, p, tailRounding, key);
    expect(keys.map((key) => cells[key]!.better)).toEqual([true, true, false, true]);
  });

  it("a row that is significant in its own column alone is not in a larger table", () => {
    const cell = (p: number) => ({ ...measured([0.7]), p, test: "McNemar", better: true }) as const;
    const create = (columns: readonly string[]): boolean => {
      const cells = Object.fromEntries(columns.map((id) => [`${id}/accuracy`, cell(id === "x" ? 0.03 : 0.9)]));
      const base = Object.fromEntries(columns.map((id) => [`${id}/accuracy`, measured([0.5])]));
      const rows = [
        { id: "a", title: "a", cells: base, selected: {} },
        { id: "b", title: "b", cells, selected: {} },
      ];
      return addSignificanceTests(rows, "a")[1]!.cells["x/accuracy"]!.better;
    };
    expect([create(["x"]), create(["x", "y"])]).toEqual([true, false]);
  });

  it("names the number of texts once, or in each cell if they differ", () => {
    const [few, many] = [row("a", measured([0.5], 12)), row("b", measured([0.5], 40))];
    expect(toMarkdown(table([few, few]))).toMatch(/Test examples: .* 12\./);
    expect(toMarkdown(table([few, many]))).toMatch(/ of 12 .*\n.* of 40 /);
    expect(toMarkdown(table([few, many]))).not.toContain("Test examples");
  });

  it("escapes Markdown, and lists its notes", () => {
    const rows = [{ id: 'a,"b"', title: "I(S;T|Y)", cells: {}, selected: { x: { "train.learningRate": 1e-5 } } }];
    const rendered = toMarkdown(table(rows, { notes: ["x: no results yet"], profile: "small" }));
    expect(rendered).toMatch(/\| I\(S;T\\\|Y\) \| – \|/);
    expect(rendered).toContain("–: not measured.");
    expect(rendered).toMatch(/train\.learningRate 0\.00001[\s\S]*- x: no results yet/);
    expect(rendered).toMatch(/Profile small/);
  });

  it("adds the published numbers with the interval for the size of their test set", async () => {
    const path = join(folder, "published.yaml");
    writeFileSync(
      path,
      "t:\n  source: Paper\n  examples: { accuracy: 81 }\n  rows: { a: { x/accuracy: [40, 1] }, b: { x/accuracy: 95 } }\n",
    );
    const published = await readPublishedTable("t", path);
    const cell = getPublishedValue(published, "a", "x/accuracy")!;
    expect(cell).toMatchObject({ mean: 0.4, std: 0.01 });
    const wilson = wilsonInterval(32.4, 81);
    expectClose(cell.interval!.high - cell.interval!.low, wilson.high - wilson.low, { ...float64, scale: 1 });
    const rows = [row("a", measured([0.45, 0.5, 0.55], 81)), row("b", measured([0.45, 0.5, 0.55], 81))];
    expect(hasDisjointIntervals(rows[0]!.cells["x/accuracy"], cell)).toBe(false);
    const rendered = toMarkdown(table(rows), published);
    expect(rendered).toMatch(/\| A \| 50\.0 .* \| 40\.0 ± 1\.0 \([\d.]+ to [\d.]+\) \|/);
    expect(rendered).toMatch(/\| B \| 50\.0 .* \| 95\.0 \([\d.]+ to [\d.]+\) ≠ \|/);
    expect(addPublishedNumbers(table(rows), published)).toMatchObject({
      source: "Paper",
      rows: [{}, { cells: { "x/accuracy": { published: { differs: true } } } }],
    });
  });
});
