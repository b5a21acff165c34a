import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createJobScript, readTaskState } from "../../src/jobs/slurm-commands.js";
import { createSweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { sweepSettingsSchema } from "../../src/sweeps/schema.js";
import { readJobList, submitSweep } from "../../src/sweeps/slurm.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
let folder: string;

/** Puts a fake command first on PATH. It records its arguments. */
function fakeCommand(name: string, script: string): void {
  const path = join(folder, "bin", name);
  writeFileSync(path, `#!/bin/sh\necho "$@" >> ${join(folder, name)}.calls\n${script}\n`);
  chmodSync(path, 0o755);
}
const calls = (name: string): string[] =>
  readFileSync(join(folder, `${name}.calls`), "utf8")
    .trim()
    .split("\n");

beforeEach(() => {
  folder = join(parent, String(number++));
  mkdirSync(join(folder, "bin"), { recursive: true });
  vi.stubEnv("PATH", `${join(folder, "bin")}${delimiter}/usr/bin${delimiter}/bin`);
  fakeCommand("sinfo", "echo gpu; echo cpu");
  fakeCommand("squeue", "true");
  fakeCommand("scontrol", "echo 'MaxArraySize            = 3'");
  fakeCommand("sbatch", `n=$(wc -l < ${join(folder, "sbatch.calls")}); echo $((100 + n))`);
  fakeCommand("sacct", "exit 1");
});
afterEach(() => {
  vi.unstubAllEnvs();
});

async function writePlan(changes: object = {}) {
  const out = join(folder, "out");
  const file = await writeTinySweep(folder, { rows: { standard: null }, seeds: [0, 1, 2], ...changes });
  const sweep = await createSweepPlan(await readSweep({ file }));
  await writeSweepPlan(out, sweep);
  return { out, sweep, plan: sweep.plan };
}
const options = (slurm: object = {}) => ({
  ...{ settings: sweepSettingsSchema.parse({ slurm }).slurm, jobs: null, trust: "data" as const },
});

describe("a sweep on Slurm", () => {
  it("is submitted as job arrays within the cluster's limit, and later phases wait for earlier ones", async () => {
    const { out, plan } = await writePlan({ evaluation: { attacks: { greedy: null }, numExamples: 5 } });
    const settings = { partition: "gpu", gpus: 1, cpus: 4, time: "2:00:00", memory: "16G", options: ["--account=nlp"] };
    expect(await submitSweep(out, plan, { ...options(settings), jobs: 7 })).toBe(6);
    const submitted = calls("sbatch");
    expect(submitted).toHaveLength(4);
    expect(submitted[0]).toMatch(
      /--parsable --job-name=temper-\w{8}-1 --array=0-1%7 .*--requeue --signal=B:USR1@60 --cpus-per-task=4 --partition=gpu --gres=gpu:1 --time=2:00:00 --mem=16G --account=nlp/,
    );
    expect(submitted[1]).toMatch(/--array=0-0%7/);
    expect(submitted[2]).toMatch(/--dependency=afterany:101:102/);
    const list = await readJobList(join(out, "slurm", "2.json"));
    expect(list).toMatchObject({ job: "102", items: [{ kind: "train", run: expect.stringMatching(/seed2/) }] });
    expect(readFileSync(join(out, "slurm", "2.sh"), "utf8")).toBe(
      createJobScript(join(out, "slurm", "2.json"), "data"),
    );
  });

  it("submits the runs that start from a stage after the stage", async () => {
    const rows = { plain: null, robust: { model: "stage:teacher" } };
    const { out, plan } = await writePlan({ stages: { teacher: { seed: 9 } }, rows, seeds: [0], baseline: null });
    expect(await submitSweep(out, plan, options())).toBe(3);
    const submitted = calls("sbatch");
    expect(submitted).toHaveLength(2);
    expect(submitted[0]).toMatch(/--array=0-1 /);
    expect(submitted[1]).toMatch(/--array=0-0 .*--dependency=afterany:101 /);
  });

  it("escapes % in the name of the folder", async () => {
    const { sweep, plan } = await writePlan();
    const out = join(folder, "50%j off");
    await writeSweepPlan(out, sweep);
    await submitSweep(out, plan, options());
    expect(calls("sbatch")[0]).toContain(`--output=${join(folder, "50%%j off", "slurm", "%A_%a.log")}`);
  });

  it("submits nothing that is in the queue or done", async () => {
    const { out, plan } = await writePlan();
    await submitSweep(out, plan, options());
    const [, name] = /--job-name=(\S+)/.exec(calls("sbatch")[0]!)!;
    fakeCommand(
      "squeue",
      `echo '101|0|${name}|RUNNING|None'; echo '101|1|${name}|PENDING|Resources'; echo '9|0|other|RUNNING|None'`,
    );
    expect(await submitSweep(out, plan, options())).toBe(1);
    expect(await readJobList(join(out, "slurm", "3.json"))).toMatchObject({
      items: [{ run: expect.stringMatching(/seed2/) }],
    });
  });

  it("names the partitions if one is missing, before it writes or submits anything", async () => {
    const out = join(folder, "missing");
    const { code, stderr } = await invoke([
      "sweep",
      await writeTinySweep(folder),
      "--out",
      out,
      "--backend",
      "slurm",
      "--partition",
      "gpus",
    ]);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /--partition gpus: there is no such partition \(did you mean "gpu"\?\)\. The partitions are gpu, cpu/,
    );
    expect(existsSync(out)).toBe(false);
    expect(existsSync(join(folder, "sbatch.calls"))).toBe(false);
  });

  it("rejects invalid Slurm settings before it writes anything", async () => {
    const out = join(folder, "never");
    const rejected = await invoke([
      "sweep",
      await writeTinySweep(folder),
      "--out",
      out,
      "--backend",
      "slurm",
      "--time",
      "soon",
    ]);
    expect(rejected).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/slurm\.time: expected a time in Slurm's format/),
    });
    expect(existsSync(out)).toBe(false);
  });

  it("reports why sbatch rejected a job, the command and what to do", async () => {
    const { out, plan } = await writePlan();
    fakeCommand("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1");
    await expect(submitSweep(out, plan, options())).rejects.toThrow(
      /sbatch rejected the job: sbatch: error: Invalid account\nThe command was: sbatch .*\n.*pass --resume/,
    );
  });

  it("reports that Slurm is missing or does not respond, and leaves no folder behind", async () => {
    const file = await writeTinySweep(folder);
    fakeCommand("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    const silent = await invoke(["sweep", file, "--out", join(folder, "silent"), "--backend", "slurm"]);
    expect(silent).toMatchObject({ code: 2, stderr: expect.stringMatching(/squeue failed: .*Unable to contact/) });
    vi.stubEnv("PATH", "/nowhere");
    const none = await invoke(["sweep", file, "--out", join(folder, "none"), "--backend", "slurm"]);
    expect(none).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/this host has no sinfo\. Use a login node/),
    });
    for (const name of ["silent", "none"]) expect(existsSync(join(folder, name))).toBe(false);
  });

  it("reads the state of a task from the accounting, or from the controller if there is none", () => {
    fakeCommand("sacct", "echo 'TIMEOUT|0:15'");
    expect(readTaskState("7", 3)).toBe("TIMEOUT, exit code 0:15");
    fakeCommand("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    fakeCommand("scontrol", "echo 'JobId=7 JobState=CANCELLED Reason=None Dependency=(null)'");
    expect(readTaskState("7", 3)).toBe("CANCELLED");
    fakeCommand("scontrol", "exit 1");
    expect(readTaskState("7", 3)).toBeNull();
  });
});
