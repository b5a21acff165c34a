import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createSweepPlan, getRunFolder, readPlannedConfig, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { runLocally } from "../../src/sweeps/run-local.js";
import { planSweep, sweep } from "../../src/sweeps/run-sweep.js";
import type { SweepPlan } from "../../src/sweeps/schema.js";
import { listWorkPhases } from "../../src/sweeps/work-item.js";
import { testLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";
import { fakeProgram as program, readCalls, readTable, writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
afterEach(() => {
  vi.unstubAllEnvs();
});

const stages = { first: { seed: 7 }, second: { model: "stage:first", seed: 8 } };
const rows = { plain: null, robust: { model: "stage:second" } };

async function plan(changes: object = {}) {
  const out = join(parent, String(number++));
  const file = await writeTinySweep(out, { stages, rows, seeds: [0, 1], baseline: "plain", ...changes });
  return { out, file, sweep: await createSweepPlan(await readSweep({ file })) };
}

/** Trains with workers that finish at once, except for the seeds of `behavior`. */
async function run(out: string, written: Awaited<ReturnType<typeof plan>>["sweep"], behavior: object = {}) {
  const calls = join(out, "calls");
  rmSync(calls, { force: true });
  writeFileSync(calls, "");
  vi.stubEnv("FAKE", JSON.stringify({ calls, ...behavior }));
  await writeSweepPlan(out, written);
  const failures = await runLocally(out, written.plan, { jobs: 3, program, isCpuOnly: true });
  return { failures, seeds: readCalls(out).map(({ seed }) => seed) };
}

describe("the stages of a sweep", () => {
  it("are trained first, and runs that need no stage do not wait", async () => {
    const { out, sweep } = await plan();
    const phases = listWorkPhases(sweep.plan).map(({ items }) =>
      items.map((item) => Number(/seed(\d+)/.exec(item.kind === "train" ? item.run : "")?.[1])),
    );
    expect(phases).toEqual([[7, 0, 1], [8], [0, 1]]);
    expect((await run(out, sweep)).failures).toEqual([]);
    const { first, second } = sweep.plan.stages;
    const model = async (name: string) => (await readPlannedConfig(out, name)).model;
    for (const name of sweep.plan.cells[1]!.points[0]!.runs)
      expect(await model(name)).toBe(join(getRunFolder(out, second!), "model"));
    expect(await model(second!)).toBe(join(getRunFolder(out, first!), "model"));
    expect((await run(out, sweep)).seeds).toEqual([]);
  });

  it("have one run per seed of the table with perSeed", async () => {
    const perSeed = { first: { perSeed: true }, second: { model: "stage:first", perSeed: true } };
    const { out, sweep } = await plan({ stages: perSeed });
    const { stages: named, startsFrom, cells } = sweep.plan;
    expect(Object.keys(named)).toEqual(["first, seed 0", "first, seed 1", "second, seed 0", "second, seed 1"]);
    for (const seed of [0, 1]) {
      expect(sweep.configs[named[`first, seed ${seed}`]!]!.seed).toBe(seed);
      expect(startsFrom[named[`second, seed ${seed}`]!]).toBe(named[`first, seed ${seed}`]);
      const robust = cells.find(({ row }) => row === "robust")!.points[0]!.runs[seed]!;
      expect(startsFrom[robust]).toBe(named[`second, seed ${seed}`]);
    }
    const { failures, seeds } = await run(out, sweep, { alwaysFail: 1 });
    expect(failures.length).toBeGreaterThan(0);
    // The first stage and the plain row have the same settings, so they share a run.
    expect(seeds.filter((seed) => seed === 0)).toHaveLength(3);
  });

  it("give runs names that depend on the settings of the stage", async () => {
    const hash = ({ cells }: SweepPlan, row: number) => cells[row]!.points[0]!.runs[0];
    const { file, sweep } = await plan();
    const changed = await createSweepPlan(await readSweep({ file, set: ["stages.first.train.epochs=1"] }));
    expect(hash(changed.plan, 0)).toBe(hash(sweep.plan, 0));
    expect(hash(changed.plan, 1)).not.toBe(hash(sweep.plan, 1));
    expect(sweep.configs[hash(sweep.plan, 1)!]!.model).toBe(`stage:${sweep.plan.stages.second}`);
  });

  it("that fail are reported with the runs that wait for them, and --resume continues", async () => {
    const { out, sweep } = await plan();
    const { failures, seeds } = await run(out, sweep, { alwaysFail: 7 });
    expect(seeds.sort()).toEqual([0, 1, 7, 7]);
    expect(failures).toHaveLength(1);
    expect(failures[0]!.error).toBe(
      "The disk is full. Free some space.\nIt is stage first. 3 runs start from its model and cannot start. " +
        "Correct the cause and continue with --resume: everything that has finished is kept.",
    );
    const resumed = await run(out, sweep);
    expect(resumed).toEqual({ failures: [], seeds: [7, 8, expect.any(Number), expect.any(Number)] });
  });

  it("keep their models if unselected models are removed", async () => {
    const { out, sweep } = await plan({
      ...{ stages: { first: { seed: 0 } }, rows: { robust: { model: "stage:first" }, plain: null }, seeds: [0] },
      ...{ grid: { "train.epochs": [4, 2] }, select: {}, artifacts: { models: "selected" } },
      evaluation: { attacks: { greedy: null } },
    });
    expect((await run(out, sweep, { hasValidation: true })).failures).toEqual([]);
    expect(existsSync(join(getRunFolder(out, sweep.plan.stages.first!), "model"))).toBe(true);
  });

  it.each([
    [
      { rows: { a: { model: "stage:frist" } } },
      /sweep\.yaml:\d+:\d+: model: there is no stage frist.*did you mean "first"/,
    ],
    [{ stages: {} }, /the file has no stages/],
    [
      { stages: { second: { model: "stage:first" }, first: null } },
      /expected an earlier stage or another model, received stage:first/,
    ],
    [{ stages: { first: null, second: { model: "stage:second" } } }, /expected an earlier stage \(first\) or another/],
    [
      { stages: { first: { perSeed: true }, second: { model: "stage:first" } } },
      /expected an earlier stage or another model, received stage:first.*perSeed/,
    ],
    [
      { stages: { first: { perSeed: true, seed: 3 }, second: null } },
      /stages\.first\.seed: expected no seed with perSeed/,
    ],
    [{ stages: { first: { perSeed: "yes" }, second: null } }, /stages\.first\.perSeed: expected/],
    [{ stages: { first: { epoch: 3 }, second: null } }, /sweep\.yaml:\d+:\d+: .*epoch/],
  ])("that are wrong are reported with their place: %j", async (changes, message) => {
    const out = join(parent, String(number++));
    const file = await writeTinySweep(out, { stages, rows, baseline: null, ...changes });
    await expect(sweep({ file, out: join(out, "sweep") })).rejects.toThrow(message as RegExp);
    expect(existsSync(join(out, "sweep"))).toBe(false);
  });

  testLong("train real models that later runs start from", async () => {
    const out = join(parent, String(number++));
    const train = { epochs: 1, batchSize: 8, learningRate: 3e-2 };
    const file = await writeTinySweep(out, {
      ...{ train, rows: { plain: null, robust: { model: "stage:first" } }, seeds: [0], baseline: "plain" },
      stages: { first: { train: { epochs: 8 } } },
      evaluation: { exact: { maxChanges: 2, numExamples: 6 } },
    });
    const planned = await planSweep({ file, estimate: true });
    expect(planned).toMatchObject({ inputs: { downloads: [] } });
    expect(planned.unfinished).toHaveLength(3);
    const { status, failures } = await sweep({ file, out: join(out, "sweep"), estimate: false });
    expect({ status, failures }).toEqual({ status: "done", failures: [] });
    const [plain, robust] = readTable(join(out, "sweep")).rows.map(({ cells }) => cells["all/accuracy"]!.mean);
    // The second row continues a model that eight epochs have trained.
    expect(robust).toBeGreaterThan(plain!);
    const exact = readTable(join(out, "sweep")).rows.map(({ cells }) => cells["all/exact-2"]!);
    expect(exact.map(({ examples }) => examples)).toEqual([6, 6]);
    expect(exact[1]!.test).toBe("McNemar");
    expect(readdirSync(join(out, "sweep", "runs")).map((name) => basename(name))).toHaveLength(3);
  });
});
