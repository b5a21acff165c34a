import fc from "fast-check";
import { expect, test } from "vitest";
import { type MeasuredSeed, toModelOutcomes } from "../../src/actions/compare.js";
import { Rng } from "../../src/base/rng.js";
import { compareModels, type MetricComparison } from "../../src/evaluation/compare.js";
import { getComparisonMark } from "../../src/evaluation/comparison-mark.js";
import { describeDegeneracy } from "../../src/evaluation/degenerate.js";
import { confusionMatrix } from "../../src/evaluation/metrics.js";
import type { ExampleOutcomes } from "../../src/evaluation/outcomes.js";
import { mean } from "../../src/evaluation/statistics.js";
import { compareGroups } from "../../src/report/comparison.js";
import type { TaskGroups } from "../../src/report/groups.js";
import type { ReportRun } from "../../src/report/report-run.js";
import { renderComparisonSection } from "../../src/report/sections/comparison.js";
import type { MetricValue } from "../../src/runs/run-metrics.js";
import { compareColumn } from "../../src/sweeps/compare-column.js";
import { toMarkdown } from "../../src/sweeps/render-table.js";
import {
  addSignificanceTests,
  getMetric,
  type ResultsTable,
  type TableCell,
  type TableRow,
} from "../../src/sweeps/table.js";
import { chooseExtent } from "../extent.js";

const attackNames = ["genetic", "greedy", "pwws"];

/** How a model answers: always one label, at random, or correctly with some probability. */
const behaviorSchema = fc.record({
  kind: fc.constantFrom("constant", "guess", "sound", "sound", "sound"),
  skill: fc.constantFrom(0.6, 0.8, 0.95, 1),
  robustness: fc.constantFrom(0, 0.2, 0.6, 1),
  attacks: fc.subarray(attackNames),
  attackedFrom: fc.nat(10),
  seeds: fc.subarray([0, 1], { minLength: 1 }),
});
const scenarioSchema = fc.record({
  numLabels: fc.constantFrom(2, 3),
  numTexts: fc.integer({ min: 8, max: 60 }),
  models: fc.array(behaviorSchema, { minLength: 2, maxLength: 3 }),
  seed: fc.nat(),
});
type Behavior = typeof behaviorSchema extends fc.Arbitrary<infer T> ? T : never;
type Scenario = typeof scenarioSchema extends fc.Arbitrary<infer T> ? T : never;

function measure(scenario: Scenario, model: Behavior, index: number, seed: number): MeasuredSeed {
  const { numLabels, numTexts } = scenario;
  const rng = new Rng(scenario.seed).fork(index, seed);
  const draw = (): number => rng.next();
  const gold = Array.from({ length: numTexts }, (_, i) => i % numLabels);
  const predicted = gold.map((label) => {
    if (model.kind === "constant") return 0;
    if (model.kind === "sound" && draw() < model.skill) return label;
    return Math.floor(draw() * numLabels);
  });
  const toMetric = (outcomes: ExampleOutcomes): MetricValue => ({
    value: mean(Array.from(outcomes.values(), Number)),
    examples: outcomes.size,
    outcomes,
  });
  const correct = new Map(gold.map((label, i) => [`text-${i}`, predicted[i] === label]));
  const attacked = [...correct].slice(model.attackedFrom % (numTexts - 2));
  const metrics = new Map<string, MetricValue>([["accuracy", toMetric(correct)]]);
  if (model.attacks.length > 0) metrics.set("clean", toMetric(new Map(attacked)));
  for (const attack of model.attacks) {
    // No attack changes a constant answer: collapse looks perfectly robust.
    const survives = (): boolean => model.kind === "constant" || draw() < model.robustness;
    metrics.set(attack, toMetric(new Map(attacked.map(([id, isCorrect]) => [id, isCorrect && survives()]))));
  }
  const own = model.attacks.map((attack) => metrics.get(attack)!.outcomes!);
  if (own.length > 1)
    metrics.set("worst-case", toMetric(new Map(attacked.map(([id]) => [id, own.every((robust) => robust.get(id)!)]))));
  return { seed, metrics, degeneracy: describeDegeneracy(confusionMatrix(predicted, gold, numLabels)) };
}

const compareByName = (models: ReadonlyMap<string, readonly MeasuredSeed[]>): MetricComparison[] =>
  compareModels(
    [...models].map(([name, seeds]) => toModelOutcomes(name, seeds)),
    { skipIncomparable: true },
  );

function createTask(models: ReadonlyMap<string, readonly MeasuredSeed[]>): TaskGroups<ReportRun> {
  const groups = [...models].map(([name, seeds]) => ({
    name,
    options: "",
    runs: seeds.map(
      ({ seed, metrics, degeneracy }) => ({ run: { config: { seed } }, metrics, degeneracy }) as unknown as ReportRun,
    ),
  }));
  return { task: "task", groups, baseline: groups[0]! };
}

test("compare, table, report and studio never mark a degenerate model as better, and agree on every mark", () => {
  let marks = 0;
  let warnings = 0;
  const check = (scenario: Scenario): void => {
    const models = new Map(
      scenario.models.map((model, i) => [`m${i}`, model.seeds.map((seed) => measure(scenario, model, i, seed))]),
    );
    const compared = compareByName(models);
    const isDegenerate = (name: string, common: readonly MeasuredSeed[]): boolean =>
      models
        .get(name)!
        .some(({ seed, degeneracy }) => degeneracy !== null && common.some((each) => each.seed === seed));
    for (const { better, firstName, secondName, warning, verdict } of compared) {
      const [first, second] = [models.get(firstName)!, models.get(secondName)!];
      const single = first.length === 1 && second.length === 1;
      const isSuspect = single
        ? [...first, ...second].some(({ degeneracy }) => degeneracy !== null)
        : isDegenerate(firstName, second) || isDegenerate(secondName, first);
      expect(warning !== null).toBe(isSuspect);
      if (isSuspect)
        expect({ better, verdict }).toEqual({ better: null, verdict: expect.not.stringContaining("is better") });
      marks += Number(better !== null);
      warnings += Number(isSuspect);
    }

    const rows = [...models].map(([row, seeds]) => ({ row, seeds }));
    const metrics = [...new Set(compared.map(({ metric }) => metric))];
    const columns = [{ id: "c", title: "C", metrics }];
    const toRow = ([id, own]: readonly [string, ReadonlyMap<string, TableCell>]): TableRow => ({
      ...{ id, title: id, selected: {} },
      cells: Object.fromEntries([...own].map(([metric, cell]) => [`c/${metric}`, cell])),
    });
    const tableRows = addSignificanceTests([...compareColumn(rows, "m0", [])].map(toRow), "m0");
    const cells = new Map(
      tableRows.map((row) => [row.id, new Map(Object.entries(row.cells).map(([key, cell]) => [getMetric(key), cell]))]),
    );
    const reported = new Map(compareGroups(createTask(models)).map((row) => [row.group.name, row]));
    for (const { metric, secondName, better, p } of compared) {
      expect(cells.get(secondName)!.get(metric)).toMatchObject({ p: p.corrected, better: better === "second" });
      expect(reported.get(secondName)!.metrics.get(metric)!.comparison).toMatchObject({ better, p });
    }
    // Nothing is marked that compare does not mark.
    const tested = new Set(compared.map(({ metric, secondName }) => `${secondName} ${metric}`));
    for (const [row, own] of cells)
      for (const [metric, cell] of own)
        if (cell.better) expect(tested.has(`${row} ${metric}`) || metric === "worst-case").toBe(true);

    const wins = compared.filter(({ better }) => better === "second").length;
    // The studio shows the marks of the comparisons.
    for (const comparison of compared) {
      const mark = getComparisonMark(comparison)?.symbol ?? "";
      const symbols = { first: "▼", second: "▲", none: comparison.warning === null ? "" : "!" };
      expect(mark).toBe(symbols[comparison.better ?? "none"]);
      if (comparison.warning !== null) expect(mark).toBe("!");
    }
    const html = renderComparisonSection(createTask(models), [...reported.values()]).text;
    expect(html.match(/class="better"/g)?.length ?? 0).toBe(wins);
    const table: ResultsTable = {
      ...{
        format: 2,
        name: "t",
        title: "T",
        profile: null,
        publishedTable: null,
        baselines: ["m0"],
        significance: "examples",
        seeds: [0, 1],
        notes: [],
      },
      columns,
      rows: tableRows,
    };
    expect(toMarkdown(table).match(/ \* \|/g)?.length ?? 0).toBe(wins);
  };
  fc.assert(fc.property(scenarioSchema, check), { numRuns: chooseExtent(10, 200), seed: 17 });
  // The property is empty unless both cases occur.
  expect({ marks: marks > 2, warnings: warnings > 2 }).toEqual({ marks: true, warnings: true });
});
