import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createSweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { slurmSchema } from "../../src/sweeps/schema.js";
import { readWorkItemList, submitSweep } from "../../src/sweeps/slurm.js";
import { readTaskState } from "../../src/sweeps/slurm-commands.js";
import { createJobScript } from "../../src/sweeps/slurm-script.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
let folder: string;

/** Puts a command of the given name first on PATH; it writes down what it was called with. */
function stand(name: string, script: string): void {
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
  stand("sinfo", "echo gpu; echo cpu");
  stand("squeue", "true");
  stand("scontrol", "echo 'MaxArraySize            = 3'");
  stand("sbatch", `n=$(wc -l < ${join(folder, "sbatch.calls")}); echo $((100 + n))`);
  stand("sacct", "exit 1");
});
afterEach(() => {
  vi.unstubAllEnvs();
});

async function open(changes: object = {}) {
  const out = join(folder, "out");
  const plan = createSweepPlan(
    await readSweep(await writeTinySweep(folder, { rows: { standard: null }, seeds: [0, 1, 2], ...changes })),
  );
  await writeSweepPlan(out, plan, false);
  return { out, plan };
}
const options = (settings: object = {}) => ({ settings: slurmSchema.parse(settings), jobs: null });

describe("a sweep on Slurm", () => {
  it("becomes arrays of what a list holds, no longer than the cluster allows; later stages wait for earlier ones", async () => {
    // biome-ignore lint/suspicious/noThenProperty: a key of the sweep's file
    const { out, plan } = await open({ then: { attacks: { greedy: null }, examples: 5 } });
    const settings = { partition: "gpu", gpus: 1, cpus: 4, time: "2:00:00", memory: "16G", options: ["--account=nlp"] };
    expect(await submitSweep(out, plan, { ...options(settings), jobs: 7 })).toBe(6);
    const submitted = calls("sbatch");
    expect(submitted).toHaveLength(4);
    expect(submitted[0]).toMatch(
      /--parsable --job-name=temper-\w{8}-1 --array=0-1%7 .*--requeue --signal=B:USR1@60 --cpus-per-task=4 --partition=gpu --gres=gpu:1 --time=2:00:00 --mem=16G --account=nlp/,
    );
    expect(submitted[1]).toMatch(/--array=0-0%7/);
    expect(submitted[2]).toMatch(/--dependency=afterany:101:102/);
    const list = await readWorkItemList(join(out, "slurm", "2.json"));
    expect(list).toMatchObject({ job: "102", units: [{ kind: "train", run: expect.stringMatching(/seed2/) }] });
    expect(readFileSync(join(out, "slurm", "2.sh"), "utf8")).toBe(createJobScript(join(out, "slurm", "2.json")));
  });

  it("submits nothing twice: neither what waits in the queue nor what is done", async () => {
    const { out, plan } = await open();
    await submitSweep(out, plan, options());
    const [, name] = /--job-name=(\S+)/.exec(calls("sbatch")[0]!)!;
    stand(
      "squeue",
      `echo '101|0|${name}|RUNNING|None'; echo '101|1|${name}|PENDING|Resources'; echo '9|0|other|RUNNING|None'`,
    );
    expect(await submitSweep(out, plan, options())).toBe(1);
    expect(await readWorkItemList(join(out, "slurm", "3.json"))).toMatchObject({
      units: [{ run: expect.stringMatching(/seed2/) }],
    });
  });

  it("names the partitions where one is missing, before it writes or submits anything", async () => {
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
      /--partition gpus: this cluster has no such partition \(did you mean "gpu"\?\); it has gpu, cpu/,
    );
    expect(existsSync(out)).toBe(false);
    expect(existsSync(join(folder, "sbatch.calls"))).toBe(false);
  });

  it("refuses settings that Slurm does not know before it writes anything", async () => {
    const out = join(folder, "never");
    const refused = await invoke([
      "sweep",
      await writeTinySweep(folder),
      "--out",
      out,
      "--backend",
      "slurm",
      "--time",
      "soon",
    ]);
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--time: time: expected a time as Slurm writes it/),
    });
    expect(existsSync(out)).toBe(false);
  });

  it("says why sbatch refused, with the command, and what to do", async () => {
    const { out, plan } = await open();
    stand("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1");
    await expect(submitSweep(out, plan, options())).rejects.toThrow(
      /sbatch refused the job: sbatch: error: Invalid account\nThe command was: sbatch .*\n.*give --resume/,
    );
  });

  it("says where Slurm is not, and when it does not answer, and leaves nothing that would block the next try", async () => {
    const file = await writeTinySweep(folder);
    stand("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    const silent = await invoke(["sweep", file, "--out", join(folder, "silent"), "--backend", "slurm"]);
    expect(silent).toMatchObject({ code: 2, stderr: expect.stringMatching(/squeue failed: .*Unable to contact/) });
    vi.stubEnv("PATH", "/nowhere");
    const none = await invoke(["sweep", file, "--out", join(folder, "none"), "--backend", "slurm"]);
    expect(none).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/there is no sinfo on this machine; run it on a login node/),
    });
    for (const name of ["silent", "none"]) expect(existsSync(join(folder, name))).toBe(false);
  });

  it("asks the accounting how a task ended, and the controller where there is none", () => {
    stand("sacct", "echo 'TIMEOUT|0:15'");
    expect(readTaskState("7", 3)).toBe("TIMEOUT, exit code 0:15");
    stand("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    stand("scontrol", "echo 'JobId=7 JobState=CANCELLED Reason=None Dependency=(null)'");
    expect(readTaskState("7", 3)).toBe("CANCELLED");
    stand("scontrol", "exit 1");
    expect(readTaskState("7", 3)).toBeNull();
  });
});
