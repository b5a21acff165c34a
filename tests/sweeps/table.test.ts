import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { studentQuantile } from "../../src/evaluation/special-functions.js";
import { wilsonInterval } from "../../src/evaluation/statistics.js";
import { getPublishedValue, hasDisjointIntervals, readPublishedTable } from "../../src/sweeps/published-results.js";
import { addPublishedNumbers, toCsv, toMarkdown } from "../../src/sweeps/render-table.js";
import { addSeedTests } from "../../src/sweeps/seed-tests.js";
import { addSignificanceTests, averageCells, computeCell, type ResultsTable } from "../../src/sweeps/table.js";
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

describe("a table", () => {
  it("has a mean, a standard deviation and an interval over seeds and examples", () => {
    // The 97.5% quantile of Student's t with 2 degrees of freedom is 4.302653.
    expect(studentQuantile(0.975, 2)).toBeCloseTo(4.30265273, 8);
    const seeds = measured([0.8, 0.9, 1]);
    expect(seeds.mean).toBeCloseTo(0.9, 12);
    expect(seeds.std).toBeCloseTo(0.1, 12);
    expect(seeds.interval!.high).toBeCloseTo(0.9 + (4.30265273 * 0.1) / Math.sqrt(3), 8);
    const test = measured([0.4], 81);
    expect(test.interval!.low).toBeCloseTo(wilsonInterval(32.4, 81).low, 12);
    const both = measured([0.3, 0.4, 0.5], 81);
    const half = (4.30265273 * 0.1) / Math.sqrt(3);
    expect(both.interval!.low).toBeCloseTo(0.4 - Math.hypot(half, 0.4 - wilsonInterval(32.4, 81).low), 8);
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
    expect(average.values[0]).toBeCloseTo(0.6, 12);
    expect(average.values[1]).toBeCloseTo(0.6, 12);
    expect(average.std).toBeCloseTo(0, 12);
    const error = (1.959963985 * Math.sqrt((0.85 * 0.15) / 100 + (0.35 * 0.65) / 100)) / 2;
    expect(average.interval!.high - average.mean).toBeCloseTo(error, 6);
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
      [{ id: "x", metrics: ["matthews"] }],
      "a",
    );
    // Differences 0.11, 0.1, 0.09: t = 0.1 / (0.01 / sqrt 3) = 17.32, one tail of t(2): 0.001658; two tests: twice that.
    expect(rows[1]!.cells["x/matthews"]!.p).toBeCloseTo(2 * 0.0016583, 5);
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
    // c is significantly better than a (p = 0.00166), but not than b: t = 0.05 / 0.0208 = 2.40.
    expect(cells.map(({ better }) => better)).toEqual([false, false, false, true]);
    expect(cells[0]!.p).toBeNull();
    expect(cells[2]!.p).toBeCloseTo(0.0691, 4);
    expect(addSeedTests(rows.slice(0, 3), ["a"])[2]!.cells["x/accuracy"]).toMatchObject({ better: true });
    const rendered = toMarkdown(table(rows, { baselines: ["a", "b"], significance: "seeds" }));
    expect(rendered).toContain(
      "\\*: significantly better than A, B (one-tailed paired t-test over the seeds, against each",
    );
    expect(toCsv(table(rows, { significance: "seeds" }))).toContain(",high,p,test,");
  });

  it("tests for lower values of a metric whose lower values are better", () => {
    const drop = (values: readonly number[]) => ({ "x/drop": measured(values) });
    const rows = addSignificanceTests(
      [
        { id: "a", title: "a", cells: drop([0.5, 0.6, 0.7]), selected: {} },
        { id: "b", title: "b", cells: drop([0.4, 0.51, 0.59]), selected: {} },
      ],
      [{ id: "x", metrics: ["drop"] }],
      "a",
    );
    expect(rows[1]!.cells["x/drop"]!.p).toBeLessThan(0.01);
  });

  it("corrects all tests of a table together: by example, over the seeds, in every column", () => {
    const compared = (p: number, better = true) =>
      ({ ...measured([0.7, 0.8, 0.9], 100), p, test: "bootstrap", better }) as const;
    const base = measured([0.5, 0.6, 0.7]);
    // t = 17.32 as above, p = 0.0016583.
    const score = measured([0.61, 0.7, 0.79]);
    const keys = ["x/accuracy", "x/pwws", "x/worst-case", "y/accuracy", "y/advglue", "y/mcc"];
    const rows = addSignificanceTests(
      [
        { ...row("a", base), cells: Object.fromEntries(keys.map((key) => [key, base])) },
        {
          ...row("b", base),
          cells: {
            "x/accuracy": compared(0.03),
            "x/pwws": compared(0.01),
            // One attack is its own worst case, which is no further test.
            "x/worst-case": compared(0.01),
            "y/accuracy": compared(0.005, false),
            "y/advglue": score,
            // The table does not show it.
            "y/mcc": compared(1e-9),
          },
        },
      ],
      [
        { id: "x", metrics: ["accuracy", "pwws", "worst-case"] },
        { id: "y", metrics: ["accuracy", "advglue"] },
      ],
      "a",
    );
    const { cells } = rows[1]!;
    const expected = { "y/advglue": 4 * 0.0016583, "y/accuracy": 3 * 0.005, "x/pwws": 0.02, "x/accuracy": 0.03 };
    for (const [key, p] of Object.entries({ ...expected, "x/worst-case": 0.02 }))
      expect(cells[key]!.p, key).toBeCloseTo(p, 5);
    expect(keys.map((key) => cells[key]!.better)).toEqual([true, true, true, false, true, false]);
    expect(cells["y/mcc"]).toMatchObject({ p: null, test: null });
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
      const listed = columns.map((id) => ({ id, metrics: ["accuracy"] }));
      return addSignificanceTests(rows, listed, "a")[1]!.cells["x/accuracy"]!.better;
    };
    expect([create(["x"]), create(["x", "y"])]).toEqual([true, false]);
  });

  it("escapes Markdown and CSV, and lists its notes", () => {
    const rows = [{ id: 'a,"b"', title: "I(S;T|Y)", cells: {}, selected: { x: { "train.learningRate": 1e-5 } } }];
    const rendered = toMarkdown(table(rows, { notes: ["x: no results yet"], profile: "small" }));
    expect(rendered).toMatch(/\| I\(S;T\\\|Y\) \| – \|/);
    expect(rendered).toContain("–: not measured.");
    expect(rendered).toMatch(/train\.learningRate 0\.00001[\s\S]*- x: no results yet/);
    expect(rendered).toMatch(/Profile small/);
    const cell = measured([0.25, 0.75], 4);
    expect(toCsv(table([{ ...rows[0]!, cells: { "x/accuracy": cell } }])).split("\n")[1]).toMatch(
      /^"a,""b""",x,accuracy,2,0\.5,0\.35355/,
    );
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
    expect(cell.interval!.high - cell.interval!.low).toBeCloseTo(0.209, 2);
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
