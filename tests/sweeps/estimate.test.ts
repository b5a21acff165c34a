import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Interrupted } from "../../src/base/errors.js";
import type { TemperEvent } from "../../src/base/events.js";
import { isAlive } from "../../src/base/processes.js";
import { type EstimateOptions, estimateSweep } from "../../src/sweeps/estimate.js";
import { createSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { fakeProgram as program, readCalls, writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
afterEach(() => {
  vi.unstubAllEnvs();
});

const noTimeout = new AbortController().signal;

/**
 * Estimates a sweep with a worker that answers at once, except at the stage `hangAt`. `onHang` is
 * called when the worker is there.
 */
async function estimate(
  changes: object,
  options: Partial<EstimateOptions> = {},
  { hangAt, onHang }: { hangAt?: string; onHang?: () => void } = {},
) {
  const folder = join(parent, String(number++));
  const temporary = join(folder, "temporary");
  mkdirSync(temporary, { recursive: true });
  const calls = join(folder, "calls");
  vi.stubEnv("TMPDIR", temporary);
  vi.stubEnv("FAKE", JSON.stringify({ calls, hangAt }));
  const file = await writeTinySweep(folder, { train: { epochs: 2, batchSize: 8 }, baseline: null, ...changes });
  const sweep = await createSweepPlan(await readSweep({ file }));
  const events: TemperEvent[] = [];
  const outcome = await estimateSweep(sweep, sweep.plan.runs, {
    ...{ jobs: 1, program, timeout: noTimeout, ...options },
    onEvent(event) {
      events.push(event);
      if (event.type === "progress" && event.stage === hangAt)
        void expect
          .poll(() => existsSync(calls) && readFileSync(calls, "utf8").includes(hangAt))
          .toBe(true)
          .then(onHang);
    },
  }).catch((error: unknown) => error);
  const executed = readCalls(folder);
  return {
    outcome,
    events,
    labels: executed.map(({ label }) => label),
    pids: [...new Set(executed.map(({ pid }) => pid))],
    threads: executed[0]!.threads,
    left: readdirSync(temporary),
  };
}

const rows = {
  standard: null,
  rose: { methods: ["rose"] },
  smoothed: { methods: ["r-drop"], grid: { "methods.r-drop.alpha": [0.1, 0.5, 1] } },
};

/** Two epochs: a step takes 1 s, and 1 s per text for each pass. */
const secondsPerRun = (batchSize: number, numPasses: number): number =>
  2 * (80 / batchSize) * (1 + numPasses * batchSize);

describe("the estimate of a sweep", () => {
  it("measures each stack of methods once, in one process, and names what it does", async () => {
    const { outcome, events, labels, pids, left } = await estimate({ rows, seeds: [0, 1] });
    const stages = ["reads reviews.tsv", "measures standard", "measures rose", "measures r-drop"];
    expect(labels).toEqual(stages);
    expect(events).toEqual(stages.map((stage, done) => ({ type: "progress", stage, done, total: 4 })));
    expect(pids).toHaveLength(1);
    expect(pids.map(isAlive)).toEqual([false]);
    expect(left).toEqual([]);
    const seconds = 2 * secondsPerRun(8, 1) + 8 * secondsPerRun(8, 2);
    expect(outcome).toMatchObject({
      ...{ concurrentRuns: 1, device: "cpu", step: { batchSize: 4, length: 10 } },
      ...{ diskBytes: 4000 + 10 * 4000, scaled: { methods: [], data: [] } },
    });
    const { seconds: estimated, low, high } = outcome as { seconds: number; low: number; high: number };
    expectClose(estimated, seconds, { format: "float64" });
    // The step of the run does twice the work of the largest measured one.
    expectClose(high / estimated, 1.3 * 1.1, { format: "float64" });
    expectClose(estimated / low, 1.3 * 1.1, { format: "float64" });
  });

  it("scales other batch sizes and epochs without measuring them", async () => {
    const sizes = { rows: { standard: null }, seeds: [0], grid: { "train.batchSize": [4, 8, 16] } };
    const { outcome, labels } = await estimate(sizes);
    expect(labels).toEqual(["reads reviews.tsv", "measures standard"]);
    const seconds = [4, 8, 16].map((batchSize) => secondsPerRun(batchSize, 1)).reduce((sum, each) => sum + each);
    expectClose((outcome as { seconds: number }).seconds, seconds, { format: "float64" });
  });

  it("measures methods again if an option can change their cost", async () => {
    const { labels } = await estimate({
      rows: {
        first: { methods: [{ rose: { variant: "first" } }] },
        second: { methods: [{ rose: { variant: "second" } }] },
        half: { methods: [{ rose: { variant: "second", updateRatio: 0.5 } }] },
        off: { methods: [{ "r-drop": { alpha: 0 } }] },
        on: { methods: [{ "r-drop": { alpha: 2 } }] },
      },
    });
    expect(labels.slice(1)).toEqual(["measures rose", "measures rose", "measures r-drop", "measures r-drop"]);
  });

  it("gives the worker the threads of a run", async () => {
    vi.stubEnv("OMP_NUM_THREADS", "");
    const { outcome, threads } = await estimate({ rows: { standard: null } }, { jobs: 64 });
    expect(threads).toBe("1");
    expect(outcome).toMatchObject({ concurrentRuns: 64 });
  });

  it("scales the other methods when the time is used up, and names them", async () => {
    const timeout = new AbortController();
    const { outcome, events, labels, pids, left } = await estimate(
      { rows, seeds: [0] },
      { timeout: timeout.signal },
      { hangAt: "measures rose", onHang: () => timeout.abort() },
    );
    expect(labels).toEqual(["reads reviews.tsv", "measures standard", "measures rose"]);
    expect(events.at(-1)).toMatchObject({ stage: "measures rose", done: 2, total: 4 });
    expect(pids.map(isAlive)).toEqual(pids.map(() => false));
    expect(left).toEqual([]);
    expect(outcome).toMatchObject({ scaled: { methods: ["rose", "r-drop"], data: [] } });
    const { seconds, low, high } = outcome as { seconds: number; low: number; high: number };
    expectClose(seconds, 5 * secondsPerRun(8, 1), { format: "float64" });
    const single = 1.3 * 1.1;
    expectClose(high, secondsPerRun(8, 1) * (single + 4 * 2 * single), { format: "float64" });
    expectClose(low, secondsPerRun(8, 1) * (1 / single + 4 / (2 * single)), { format: "float64" });
  });

  it("says that nothing was measured if the first step takes too long", async () => {
    const timeout = new AbortController();
    const { outcome, events, left } = await estimate(
      { rows },
      { timeout: timeout.signal },
      { hangAt: "measures standard", onHang: () => timeout.abort() },
    );
    expect(outcome).toBeNull();
    expect(events.at(-1)).toMatchObject({ type: "warning", message: expect.stringMatching(/No step was measured/) });
    expect(left).toEqual([]);
  });

  it.each(["reads reviews.tsv", "measures rose"])("ends at a signal while it %s", async (stage) => {
    const stop = new AbortController();
    const { outcome, pids, left } = await estimate(
      { rows },
      { signal: stop.signal },
      { hangAt: stage, onHang: () => stop.abort() },
    );
    expect(outcome).toBeInstanceOf(Interrupted);
    expect(pids.map(isAlive)).toEqual(pids.map(() => false));
    expect(left).toEqual([]);
  });
});
