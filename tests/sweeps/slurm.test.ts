import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { buildIfStale } from "../cli/built.js";
import { temporaryFolder } from "../temporary.js";
import { startTemper, tableOf, temper, writeTinySweep } from "./tiny-sweep.js";

const cluster = process.env.TEMPER_TEST_SLURM === "1";
const minutes = 60_000;

beforeAll(buildIfStale, 3 * minutes);

function slurm(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: "utf8" });
}

const tasks = (state: string): string[] =>
  slurm("squeue", "--noheader", "--array", `--states=${state}`, "--format=%F_%K")
    .trim()
    .split("\n")
    .filter((line) => line !== "");

/** Waits until it is so; fails with what it waits for. */
async function until(what: string, isSo: () => boolean, seconds = 90): Promise<void> {
  for (let i = 0; i < 10 * seconds; i++) {
    if (isSo()) return;
    await delay(100);
  }
  throw new Error(`waited ${seconds} s in vain: ${what}`);
}

const finished = (out: string): number =>
  readdirSync(join(out, "runs")).filter((name) => existsSync(join(out, "runs", name, "results.json"))).length;

// `make test-slurm` brings a Slurm up first.
describe.skipIf(!cluster)("sweeps on a real Slurm (make test-slurm)", () => {
  const folder = temporaryFolder();
  const options = ["--backend", "slurm", "--partition", "temper", "--time", "10", "--quiet"];

  it(
    "a cancelled job and a dead submitter cost nothing that --resume does not mend",
    async () => {
      const file = await writeTinySweep(folder, {
        train: { epochs: 12, batchSize: 8, learningRate: 1e-2, saveSteps: 20 },
        // biome-ignore lint/suspicious/noThenProperty: a key of the sweep's file
        then: { attacks: { greedy: null }, examples: 10 },
      });
      expect(temper(["sweep", file, "--out", join(folder, "local"), "--no-estimate", "--quiet"])).toMatchObject({
        status: 0,
        stderr: "",
      });

      const out = join(folder, "cluster");
      const submitter = startTemper(["sweep", file, "--out", out, ...options]);
      await until("two tasks run", () => tasks("RUNNING").length === 2);
      submitter.kill();
      slurm("scancel", tasks("RUNNING")[0]!);
      await until("one run has finished without a submitter", () => finished(out) >= 1);
      await submitter.ended;
      const resumed = temper(["sweep", file, "--out", out, "--resume", ...options]);
      expect(resumed).toMatchObject({ status: 0, stderr: "" });
      expect(tableOf(out)).toEqual(tableOf(join(folder, "local")));
    },
    6 * minutes,
  );

  it(
    "a run that is told of its time limit saves, is queued again and goes on",
    async () => {
      const changes = {
        rows: { standard: null },
        seeds: [7],
        // Long enough that the signal meets it, however fast the machine is.
        train: { epochs: 400, batchSize: 8, learningRate: 1e-2, saveSteps: 100_000 },
      };
      const file = await writeTinySweep(join(folder, "limit"), changes);
      const out = join(folder, "limit", "out");
      expect(temper(["sweep", file, "--out", out, ...options, "--detach"])).toMatchObject({ status: 0, stderr: "" });
      const run = () => join(out, "runs", readdirSync(join(out, "runs"))[0]!);
      await until("it has begun", () => existsSync(join(run(), "events.jsonl")));
      await delay(200);
      const [task] = tasks("RUNNING");
      // What Slurm sends a minute before the limit.
      slurm("scancel", "--batch", "--signal=USR1", task!);
      await until("it has saved a checkpoint", () =>
        readdirSync(join(run(), "checkpoints")).some((name) => name.startsWith("step-")),
      );
      await until("it is queued again", () => /Restarts=1/.test(slurm("scontrol", "show", "job", task!)));
      // Slurm holds a job back for a while before it runs again; nobody here has to wait.
      spawnSync("scontrol", ["update", `JobId=${task}`, "StartTime=now"]);
      expect(temper(["sweep", file, "--out", out, "--resume", ...options])).toMatchObject({ status: 0, stderr: "" });
      expect(tableOf(out).rows[0]?.cells["all/accuracy"]?.values).toHaveLength(1);
    },
    6 * minutes,
  );

  it("a missing partition and a refused job are told before and as they happen", async () => {
    const file = await writeTinySweep(join(folder, "bad"));
    const out = join(folder, "bad", "out");
    const missing = temper(["sweep", file, "--out", out, "--backend", "slurm", "--partition", "tempr"]);
    expect(missing.status).toBe(2);
    expect(missing.stderr).toMatch(/--partition tempr: this cluster has no such partition.*did you mean "temper"/);
    const refused = temper(["sweep", file, "--out", out, "--resume", "--backend", "slurm", "--gpus", "1"]);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toMatch(/sbatch refused the job: .*generic resource/);
  });
});
