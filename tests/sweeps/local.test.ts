import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { collectResults } from "../../src/sweeps/collect-results.js";
import { createSweepPlan, getRunFolder, type SweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { runLocally } from "../../src/sweeps/run-local.js";
import { formatWorkItem, type WorkItemResult } from "../../src/sweeps/work-item.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
const program = [process.execPath, join(import.meta.dirname, "fake-temper.mjs")];
let number = 0;
let out: string;
let plan: SweepPlan;

beforeEach(async () => {
  out = join(parent, String(number++));
  plan = createSweepPlan(await readSweep(await writeTinySweep(out, { rows: { standard: null }, seeds: [0, 1, 2, 3] })));
  await writeSweepPlan(out, plan, false);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const fake = (behaviour: object): void =>
  void vi.stubEnv("FAKE", JSON.stringify({ calls: join(out, "calls"), ...behaviour }));
const calls = (): { seed: number; gpu?: string; threads?: string }[] =>
  readFileSync(join(out, "calls"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { seed: number });

describe("a sweep on this machine", () => {
  it("tries a crashed run once more, and lists one that fails again with its error and its command", async () => {
    fake({ crashOnce: 1, alwaysFail: 2 });
    const ends = new Map<string, WorkItemResult>();
    const failures = await runLocally(out, plan, {
      jobs: 2,
      program,
      callbacks: { onItemEnd: (unit, end) => ends.set(formatWorkItem(unit), end) },
    });
    expect(
      calls()
        .map(({ seed }) => seed)
        .sort(),
    ).toEqual([0, 1, 1, 2, 2, 3]);
    const [failed] = plan.cells[0]!.points[0]!.runs.filter((run) => run.includes("seed2"));
    expect(failures).toEqual([
      {
        unit: { kind: "train", run: failed },
        error: "cannot write there: the disk is full; free some space and try again",
        command: `temper train --resume --out ${getRunFolder(out, failed!)} --quiet`,
      },
    ]);
    expect([...ends.values()].map(({ state }) => state).sort()).toEqual(["done", "done", "done", "failed"]);
    expect((await collectResults(out, plan)).notes).toEqual(["standard, all: no results yet"]);
  });

  it("never runs again what has finished", async () => {
    fake({ alwaysFail: 3 });
    await runLocally(out, plan, { jobs: 1, program });
    fake({});
    expect(await runLocally(out, plan, { jobs: 1, program })).toEqual([]);
    expect(calls().map(({ seed }) => seed)).toEqual([0, 1, 2, 3, 3, 3]);
    const cell = (await collectResults(out, plan)).rows[0]!.cells["all/accuracy"]!;
    expect(cell.values).toEqual([0.5, 0.51, 0.52, 0.53]);
    expect(cell.mean).toBeCloseTo(0.515, 12);
    expect(cell.deviation).toBeCloseTo(0.0129099, 6);
  });

  it("gives each run a GPU of its own where there are several, and shares the cores where there is none", async () => {
    const onGpu = {
      ...plan,
      runs: Object.fromEntries(
        Object.entries(plan.runs).map(([name, config]) => [name, { ...config, device: "auto" }]),
      ),
    };
    vi.stubEnv("CUDA_VISIBLE_DEVICES", "3,5");
    fake({});
    await runLocally(out, onGpu, { jobs: null, program });
    expect(new Set(calls().map(({ gpu }) => gpu))).toEqual(new Set(["3", "5"]));
    vi.stubEnv("OMP_NUM_THREADS", "");
    const second = `${out}-cpu`;
    await writeSweepPlan(second, plan, false);
    fake({ calls: join(second, "calls") });
    await runLocally(second, plan, { jobs: 2, program });
    const share = Math.max(1, Math.floor(availableParallelism() / 2));
    expect(readFileSync(join(second, "calls"), "utf8").split(`"threads":"${share}"`)).toHaveLength(5);
  });

  it("stops what runs and begins nothing more when it is told to", async () => {
    fake({ slow: 1 });
    const stop = new AbortController();
    const begun: string[] = [];
    const failures = await runLocally(out, plan, {
      jobs: 1,
      program,
      stop: stop.signal,
      callbacks: {
        onItemStart(unit) {
          begun.push(formatWorkItem(unit));
          if (begun.length === 2) setTimeout(() => stop.abort(), 500);
        },
      },
    });
    expect(failures).toEqual([]);
    expect(begun).toHaveLength(2);
  });

  it("keeps checkpoints only where it is told to, and of a search the chosen models", async () => {
    const rows = { standard: null };
    const searched = { rows, seeds: [0], grid: { "train.epochs": [1, 2] }, select: {}, keep: { models: "selected" } };
    // biome-ignore lint/suspicious/noThenProperty: a key of the sweep's file
    const file = await writeTinySweep(join(out, "search"), { ...searched, then: { advglue: true } });
    const search = createSweepPlan(await readSweep(file));
    const at = join(out, "search", "out");
    await writeSweepPlan(at, search, false);
    fake({ selection: true });
    await runLocally(at, search, { jobs: 1, program });
    const [chosen, other] = search.cells[0]!.points.map(({ runs }) => getRunFolder(at, runs[0]!));
    expect([existsSync(join(chosen!, "model")), existsSync(join(other!, "model"))]).toEqual([true, false]);
    expect([chosen, other].map((folder) => existsSync(join(folder!, "checkpoints")))).toEqual([false, false]);
    expect([chosen, other].map((folder) => existsSync(join(folder!, "results.json")))).toEqual([true, true]);
  });
});
