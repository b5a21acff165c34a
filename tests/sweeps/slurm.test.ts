import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../temporary.js";
import { readTable, startTemper, temper, writeTinySweep } from "./tiny-sweep.js";

const cluster = process.env.TEMPER_TEST_SLURM === "1";
const minutes = 60_000;

function slurm(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: "utf8" });
}

const tasks = (state: string): string[] =>
  slurm("squeue", "--noheader", "--array", `--states=${state}`, "--format=%F_%K")
    .trim()
    .split("\n")
    .filter((line) => line !== "");

/** Waits for a condition and fails with its description. */
async function waitUntil(what: string, isTrue: () => boolean, seconds = 90): Promise<void> {
  for (let i = 0; i < 10 * seconds; i++) {
    if (isTrue()) return;
    await delay(100);
  }
  throw new Error(`still not true after ${seconds} s: ${what}`);
}

const finished = (out: string): number =>
  readdirSync(join(out, "runs")).filter((name) => existsSync(join(out, "runs", name, "results.json"))).length;

// `make test-slurm` starts Slurm first.
describe.skipIf(!cluster)("sweeps on a real Slurm cluster (make test-slurm)", { timeout: 6 * minutes }, () => {
  const folder = temporaryFolder();
  const options = ["--backend", "slurm", "--partition", "temper", "--time", "10", "--quiet"];

  it("--resume completes a sweep after a canceled job and a killed submitter", async () => {
    const file = await writeTinySweep(folder, {
      train: { epochs: 12, batchSize: 8, learningRate: 1e-2, saveSteps: 20 },
      evaluation: { attacks: { greedy: null }, numExamples: 10 },
    });
    expect(temper(["sweep", file, "--out", join(folder, "local"), "--no-estimate", "--quiet"])).toMatchObject({
      status: 0,
      stderr: "",
    });

    const out = join(folder, "cluster");
    const submitter = startTemper(["sweep", file, "--out", out, ...options]);
    await waitUntil("two tasks run", () => tasks("RUNNING").length === 2);
    submitter.kill();
    slurm("scancel", tasks("RUNNING")[0]!);
    await waitUntil("one run has finished without a submitter", () => finished(out) >= 1);
    await submitter.ended;
    const resumed = temper(["sweep", file, "--out", out, "--resume", ...options]);
    expect(resumed).toMatchObject({ status: 0, stderr: "" });
    expect(readTable(out)).toEqual(readTable(join(folder, "local")));
  });

  it("a run that reaches its time limit saves its work, and another job continues it", async () => {
    const changes = {
      rows: { standard: null },
      seeds: [7],
      // Long enough that the signal arrives during training on any host.
      train: { epochs: 400, batchSize: 8, learningRate: 1e-2, saveSteps: 100_000 },
    };
    const file = await writeTinySweep(join(folder, "limit"), changes);
    const out = join(folder, "limit", "out");
    const submitter = startTemper(["sweep", file, "--out", out, ...options]);
    const listRuns = (): string[] => (existsSync(join(out, "runs")) ? readdirSync(join(out, "runs")) : []);
    const getRunPath = (name: string): string => join(out, "runs", listRuns()[0] ?? "", name);
    await waitUntil("it has started", () => listRuns().length > 0 && existsSync(getRunPath("events.jsonl")));
    await delay(200);
    // Slurm sends this signal one minute before the limit.
    slurm("scancel", "--batch", "--signal=TERM", tasks("RUNNING")[0]!);
    await waitUntil("it has saved a checkpoint", () =>
      readdirSync(getRunPath("checkpoints")).some((name) => name.startsWith("step-")),
    );
    expect(await submitter.ended).toMatchObject({ status: 0, stderr: "" });
    expect(readdirSync(join(out, "slurm")).length).toBeGreaterThan(1);
    expect(readTable(out).rows[0]?.cells["all/accuracy"]?.values).toHaveLength(1);
  });

  it("Ctrl-C cancels the jobs, whose work is saved", async () => {
    const changes = {
      rows: { standard: null },
      seeds: [3],
      train: { epochs: 400, batchSize: 8, saveSteps: 100_000 },
    };
    const file = await writeTinySweep(join(folder, "stopped"), changes);
    const out = join(folder, "stopped", "out");
    const submitter = startTemper(["sweep", file, "--out", out, ...options]);
    await waitUntil("a task runs", () => tasks("RUNNING").length === 1);
    process.kill(submitter.pid, "SIGINT");
    expect(await submitter.ended).toMatchObject({ status: 130 });
    await waitUntil("no job is left", () => slurm("squeue", "--noheader").trim() === "");
  });

  it("a missing partition and a rejected job are reported", async () => {
    const file = await writeTinySweep(join(folder, "bad"));
    const out = join(folder, "bad", "out");
    const missing = temper(["sweep", file, "--out", out, "--backend", "slurm", "--partition", "tempr"]);
    expect(missing.status).toBe(2);
    expect(missing.stderr).toMatch(/--partition tempr: there is no such partition.*did you mean "temper"/);
    const rejected = temper(["sweep", file, "--out", out, "--resume", "--backend", "slurm", "--gpus", "1"]);
    expect(rejected.status).toBe(2);
    expect(rejected.stderr).toMatch(/sbatch rejected the job: .*generic resource/);
  });
});
