import { cpSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isAlive } from "../../src/base/processes.js";
import { measureLargestModel } from "../../src/sweeps/check-sweep.js";
import { collectResults } from "../../src/sweeps/collect-results.js";
import { createSweepPlan, getRunFolder, readSweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { runLocally } from "../../src/sweeps/run-local.js";
import type { WorkItemResult } from "../../src/sweeps/run-work.js";
import type { SweepPlan } from "../../src/sweeps/schema.js";
import type { SweepEvent } from "../../src/sweeps/sweep-events.js";
import { formatWorkItem, listWorkByCell, listWorkPhases, resolveWorkItem } from "../../src/sweeps/work-item.js";
import { expectClose, float64 } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { type Execution, fakeProgram as program, readCalls, writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
let out: string;
let plan: SweepPlan;

beforeEach(async () => {
  out = join(parent, String(number++));
  plan = await writePlan(out, { rows: { standard: null }, seeds: [0, 1, 2, 3] });
});
afterEach(() => {
  vi.unstubAllEnvs();
});

async function writePlan(folder: string, changes: object): Promise<SweepPlan> {
  const written = await createSweepPlan(await readSweep({ file: await writeTinySweep(folder, { ...changes }) }));
  await writeSweepPlan(folder, written);
  return written.plan;
}
const fake = (behavior: object): void =>
  void vi.stubEnv("FAKE", JSON.stringify({ calls: join(out, "calls"), ...behavior }));
const calls = (): Execution[] => readCalls(out);

/** Waits until so many workers run. */
async function waitForCalls(count: number): Promise<void> {
  await expect.poll(() => calls().length).toBe(count);
}

it("reads the plan of an earlier version, whose attack options had groups", async () => {
  const evaluation = {
    attacks: ["pwws"],
    options: { substitutions: "wordnet", queryBudget: 9 },
    columns: { all: { split: "validation" } },
  };
  const written = await writePlan(out, { evaluation, columns: { all: null } });
  const { settings, ...rest } = JSON.parse(readFileSync(join(out, "sweep.json"), "utf8"));
  const { substitutions, queryBudget, ...options } = settings.evaluation.options;
  const grouped = {
    ...settings.evaluation,
    options: { ...options, resources: { substitutions }, constraints: { queryBudget } },
    columns: { all: { sample: { split: "validation" } } },
  };
  writeFileSync(join(out, "sweep.json"), JSON.stringify({ ...rest, settings: { ...settings, evaluation: grouped } }));
  expect(await readSweepPlan(out)).toEqual(written);
});

describe("a sweep on this host", () => {
  it("tries a crashed run again, and lists a run that fails twice with its error, command and log", async () => {
    fake({ crashOnce: 1, alwaysFail: 2 });
    const ends = new Map<string, WorkItemResult>();
    const failures = await runLocally(out, plan, {
      ...{ jobs: 2, program, isCpuOnly: true },
      onEvent: (event) => event.type === "item-end" && ends.set(formatWorkItem(event.item), event.result),
    });
    expect(
      calls()
        .map(({ seed }) => seed)
        .sort(),
    ).toEqual([0, 1, 1, 2, 2, 3]);
    const [failed] = plan.cells[0]!.points[0]!.runs.filter((run) => run.includes("seed2"));
    const folder = getRunFolder(out, failed!);
    const requestPath = join(folder, "requests", "train.request.json");
    expect(failures).toEqual([
      {
        item: { kind: "train", run: failed },
        state: "failed",
        error: "The disk is full. Free some space.",
        command: `temper worker ${requestPath} ${join(folder, "requests", "train.result.json")}`,
        log: join(folder, "log.txt"),
      },
    ]);
    expect(JSON.parse(readFileSync(requestPath, "utf8"))).toEqual({ kind: "train", config: null, out: folder });
    expect([...ends.values()].map(({ state }) => state).sort()).toEqual(["done", "done", "done", "failed"]);
    expect((await collectResults(out, plan)).notes).toEqual(["standard, all: no results yet"]);
  });

  it("reports a worker that ends without a result, with its signal and its log", async () => {
    fake({});
    const single = await writePlan(out, { rows: { standard: null }, seeds: [0] });
    const [failure] = await runLocally(out, single, {
      jobs: 1,
      isCpuOnly: true,
      program: [process.execPath, "--eval", "process.exit(3)"],
    });
    expect(failure?.error).toMatch(
      /^The worker process ended without a result \(exit code 3\)\. Its log is .*log\.txt\.$/,
    );
  });

  it("executes requests in one process after the other, and in a new process after a failure", async () => {
    fake({ crashOnce: 1 });
    const settings = { rows: { standard: null }, seeds: [0, 1], substitutions: "wordnet" };
    const attacked = await writePlan(out, { ...settings, evaluation: { attacks: { pwws: null } } });
    await runLocally(out, attacked, { jobs: 1, program, isCpuOnly: true });
    const executed = calls();
    expect(executed.map(({ kind, seed }) => `${kind} ${seed}`)).toEqual([
      ...["train 0", "train 1", "train 1", "attack 0", "attack 1"],
    ]);
    const [first, , second] = executed.map(({ pid }) => pid) as [number, number, number];
    expect(second).not.toBe(first);
    expect(executed.map(({ pid }) => pid)).toEqual([first, first, second, second, second]);
    expect([first, second].map(isAlive)).toEqual([false, false]);
    // Each log has the output of its own requests.
    const logs = attacked.runs.map((run) => readFileSync(join(getRunFolder(out, run), "log.txt"), "utf8"));
    expect(logs.map((text) => text.match(/executes \w+/g))).toEqual([
      ["executes train", "executes attack"],
      ["executes train", "executes train", "executes attack"],
    ]);
  });

  it("does not repeat finished runs", async () => {
    fake({ alwaysFail: 3 });
    await runLocally(out, plan, { jobs: 1, program, isCpuOnly: true });
    fake({});
    expect(await runLocally(out, plan, { jobs: 1, program, isCpuOnly: true })).toEqual([]);
    expect(calls().map(({ seed }) => seed)).toEqual([0, 1, 2, 3, 3, 3]);
    const cell = (await collectResults(out, plan)).rows[0]!.cells["all/accuracy"]!;
    expect(cell.values).toEqual([0.5, 0.51, 0.52, 0.53]);
    expectClose(cell.mean, 0.515, float64);
    expectClose(cell.std!, Math.sqrt(5 / 3) / 100, { ...float64, scale: 0.515 });
  });

  it("repeats a run without results, and an evaluation whose request changed", async () => {
    const changes = { rows: { standard: null }, seeds: [0], substitutions: "wordnet" };
    const analyses = [{ kind: "tradeoff" }, { kind: "distance" }];
    const attack = (numExamples: number) => ({ evaluation: { attacks: { pwws: null }, numExamples, analyses } });
    const run = async (settings: object): Promise<string[]> => {
      rmSync(join(out, "calls"), { force: true });
      writeFileSync(join(out, "calls"), "");
      fake({});
      const changed = await writePlan(out, { ...changes, ...settings });
      expect(await runLocally(out, changed, { jobs: 1, program, isCpuOnly: true })).toEqual([]);
      return calls().map(({ kind }) => kind);
    };
    expect(await run(attack(10))).toEqual(["train", "attack", "analyze", "analyze"]);
    expect(await run(attack(10))).toEqual([]);
    expect(await run({ ...attack(10), threads: 2 })).toEqual([]);
    // The tradeoff is computed from attack results, the distance is not.
    expect(await run(attack(20))).toEqual(["attack", "analyze"]);
    // The second attack has replaced the first.
    expect(await run(attack(10))).toEqual(["attack", "analyze"]);
    const { runs } = await writePlan(out, { ...changes, ...attack(10) });
    rmSync(join(getRunFolder(out, runs[0]!), "results.json"));
    expect(await run(attack(10))).toEqual(["train"]);
  });

  it("gives each run its own GPU, or a part of the cores if there is no GPU", async () => {
    vi.stubEnv("CUDA_VISIBLE_DEVICES", "3,5");
    fake({});
    plan = await writePlan(out, { rows: { standard: null }, seeds: [0, 1] });
    await runLocally(out, plan, { jobs: null, program, isCpuOnly: false });
    expect(new Set(calls().map(({ gpu }) => gpu))).toEqual(new Set(["3", "5"]));
    expect(calls().every(({ shared }) => shared === undefined)).toBe(true);
    vi.stubEnv("OMP_NUM_THREADS", "");
    const second = `${out}-cpu`;
    cpSync(join(out, "runs"), join(second, "runs"), { recursive: true });
    for (const run of plan.runs) rmSync(join(getRunFolder(second, run), "results.json"), { force: true });
    fake({ calls: join(second, "calls") });
    await runLocally(second, plan, { jobs: 2, program, isCpuOnly: true });
    const threads = Math.max(1, Math.floor(availableParallelism() / 2));
    expect(readFileSync(join(second, "calls"), "utf8").split(`"threads":"${threads}"`)).toHaveLength(3);
  });

  it("tells runs that share a GPU to leave their core while they wait, and gives each a part of the cores", async () => {
    vi.stubEnv("CUDA_VISIBLE_DEVICES", "3");
    vi.stubEnv("OMP_NUM_THREADS", "");
    fake({});
    plan = await writePlan(out, { rows: { standard: null }, seeds: [0, 1] });
    await runLocally(out, plan, { jobs: 2, program, isCpuOnly: false });
    const threads = String(Math.max(1, Math.floor(availableParallelism() / 2)));
    expect(calls().map(({ gpu, shared, threads: own }) => [gpu, shared, own])).toEqual([
      ["3", "1", threads],
      ["3", "1", threads],
    ]);
  });

  it.each([1, 2])("runs at most %i trainings on a GPU, and evaluations beside them", async (trainJobs) => {
    vi.stubEnv("CUDA_VISIBLE_DEVICES", "3");
    fake({});
    const evaluation = { attacks: ["pwws"], numExamples: 4 };
    plan = await writePlan(out, { evaluation, rows: { standard: null, rose: { methods: "rose" } } });
    const running = { train: 0, attack: 0 };
    const seen = { train: 0, both: false };
    const onEvent = (event: SweepEvent): void => {
      if (event.type !== "item-start" && event.type !== "item-end") return;
      const kind = event.item.kind === "train" ? "train" : "attack";
      running[kind] += event.type === "item-start" ? 1 : -1;
      seen.train = Math.max(seen.train, running.train);
      seen.both ||= running.train > 0 && running.attack > 0;
    };
    const options = { jobs: 3, program, isCpuOnly: false, onEvent };
    expect(await runLocally(out, plan, { ...options, trainJobs, attackProcesses: 5 })).toEqual([]);
    expect(seen).toEqual({ train: trainJobs, both: true });
    expect(calls().every(({ processes }) => processes === "5")).toBe(true);
  });

  it("finds the size of the largest model", async () => {
    const file = await writeTinySweep(out, { rows: { standard: null } });
    const planned = await createSweepPlan(await readSweep({ file }));
    const weights = join(out, "tiny-bert", "model.safetensors");
    expect(await measureLargestModel(planned)).toBe(statSync(weights).size);
  });

  it("stops its workers and starts no more when it is stopped", async () => {
    fake({ slow: 1 });
    const stop = new AbortController();
    const started: string[] = [];
    const failures = await runLocally(out, plan, {
      ...{ jobs: 1, program, isCpuOnly: true },
      stop: stop.signal,
      onEvent(event) {
        if (event.type !== "item-start") return;
        started.push(formatWorkItem(event.item));
        if (started.length === 2) void waitForCalls(2).then(() => stop.abort());
      },
    });
    expect(failures).toEqual([]);
    expect(started).toHaveLength(2);
  });

  it("evaluates each cell as soon as its runs are trained, column by column", async () => {
    const at = join(out, "cells");
    const cells = await writePlan(at, {
      ...{ rows: { a: null, b: { train: { epochs: 2 } } }, columns: { x: null, y: { maxLength: 16 } }, seeds: [0] },
      ...{ baseline: null, evaluation: { attacks: { greedy: null } } },
    });
    fake({});
    const started: string[] = [];
    const run = (jobs: number, stop?: AbortController) =>
      runLocally(at, cells, {
        ...{ jobs, program, isCpuOnly: true, stop: stop?.signal },
        onEvent(event) {
          if (event.type === "item-start") started.push(event.item.kind);
          if (event.type === "item-end" && started.length === 2) stop?.abort();
        },
      });
    expect(await run(1, new AbortController())).toEqual([]);
    expect(started).toEqual(["train", "attack"]);
    const { runs } = cells.cells[0]!.points[0]!;
    for (const name of runs) expect(existsSync(join(getRunFolder(at, name), "requests/attack.result.json"))).toBe(true);
    expect(await run(1)).toEqual([]);
    expect(started).toEqual([0, 1, 2, 3].flatMap(() => ["train", "attack"]));
    const order = listWorkByCell(cells)[0]!.items.flatMap((item) =>
      "row" in item ? `${item.row} ${item.column}` : [],
    );
    expect([...new Set(order)]).toEqual(["a x", "b x", "a y", "b y"]);
  });

  it("enumerates only in the columns of evaluation.exact, by default in all", async () => {
    const create = async (name: string, exact: object) => {
      const settings = { columns: { x: null, y: { maxLength: 16 } }, seeds: [0], baseline: null };
      const plan = await writePlan(join(out, name), { ...settings, evaluation: { exact } });
      const items = listWorkPhases(plan).flatMap((phase) => phase.items);
      return items.flatMap((item) => (item.kind === "exact" ? item.column : []));
    };
    expect(new Set(await create("exact-all", { maxChanges: 2 }))).toEqual(new Set(["x", "y"]));
    expect(new Set(await create("exact-one", { maxChanges: 2, columns: ["y"] }))).toEqual(new Set(["y"]));
  });

  it("executes each analysis of a column once, and gives those of one kind separate folders", async () => {
    const at = join(out, "analyses");
    const interpolation = { kind: "interpolation", seed: 0 };
    const plan = await writePlan(at, {
      seeds: [0, 1],
      evaluation: { analyses: [interpolation, { ...interpolation, options: { points: 5 } }, { kind: "consistency" }] },
    });
    fake({});
    expect(await runLocally(at, plan, { jobs: 1, program, isCpuOnly: true })).toEqual([]);
    const { items } = listWorkPhases(plan).find(({ kind }) => kind === "analyze")!;
    const works = await Promise.all(items.map((item) => resolveWorkItem(at, plan, item)));
    const [first] = plan.cells[0]!.points[0]!.runs.map((run) => getRunFolder(at, run));
    expect(works.slice(0, 2).map((work) => work?.request)).toMatchObject([
      { analysis: "interpolation", points: 51, out: join(first!, "analysis") },
      { analysis: "interpolation", points: 5, out: join(first!, "analysis", "2") },
    ]);
    // The consistency of two passes is a property of one run.
    expect(works.slice(2).map((work) => (work!.request as { runs: string[] }).runs)).toEqual(
      plan.cells.flatMap(({ points }) => points[0]!.runs.map((run) => [getRunFolder(at, run)])),
    );
    expect(calls().filter(({ kind }) => kind === "analyze")).toHaveLength(6);
  });

  it("removes checkpoints and unselected models as the artifacts say", async () => {
    const at = join(out, "search");
    const search = await writePlan(at, {
      rows: { standard: null },
      seeds: [0],
      grid: { "train.epochs": [1, 2] },
      select: {},
      artifacts: { models: "selected" },
      evaluation: { attacks: { greedy: null } },
    });
    fake({ hasValidation: true });
    expect(await runLocally(at, search, { jobs: 1, program, isCpuOnly: true })).toEqual([]);
    const [selected, other] = search.cells[0]!.points.map(({ runs }) => getRunFolder(at, runs[0]!));
    expect([existsSync(join(selected!, "model")), existsSync(join(other!, "model"))]).toEqual([true, false]);
    expect([selected, other].map((folder) => existsSync(join(folder!, "checkpoints")))).toEqual([false, false]);
    expect([selected, other].map((folder) => existsSync(join(folder!, "results.json")))).toEqual([true, true]);
  });

  it("removes the models of evaluated runs with models: none, after the last evaluation", async () => {
    const at = join(out, "none");
    const evaluation = { attacks: { greedy: null }, exact: { maxChanges: 1 } };
    const settings = { rows: { standard: null }, seeds: [0], artifacts: { models: "none" }, evaluation };
    const unnamed = await writePlan(at, settings);
    const model = join(getRunFolder(at, unnamed.runs[0]!), "model");
    fake({});
    const kept: [string, boolean][] = [];
    const failures = await runLocally(at, unnamed, {
      ...{ jobs: 1, program, isCpuOnly: true },
      onEvent: (event) => event.type === "item-end" && kept.push([event.item.kind, existsSync(model)]),
    });
    expect(failures).toEqual([]);
    expect(kept).toEqual([
      ["train", true],
      ["attack", true],
      ["exact", false],
    ]);
    // Nothing is left to do.
    fake({ alwaysFail: 0 });
    expect(await runLocally(at, unnamed, { jobs: 1, program, isCpuOnly: true })).toEqual([]);
  });
});
