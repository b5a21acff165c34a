import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createSweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { sweep } from "../../src/sweeps/run-sweep.js";
import { sweepSettingsSchema } from "../../src/sweeps/schema.js";
import { runOnSlurm, type SlurmOptions } from "../../src/sweeps/slurm.js";
import { getError } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { readTable, writeTinySweep } from "./tiny-sweep.js";

const parent = temporaryFolder();
let number = 0;
let folder: string;

/** Puts a fake command first on PATH. It records its arguments. */
function fakeCommand(name: string, script: string): void {
  const path = join(folder, "bin", name);
  writeFileSync(
    path,
    `#!/bin/sh\nprintf '%s ' "$@" >> ${join(folder, name)}.calls\necho >> ${join(folder, name)}.calls\n${script}\n`,
  );
  chmodSync(path, 0o755);
}
const calls = (name: string): string[] => {
  const path = join(folder, `${name}.calls`);
  return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
};

/** Prints the numbers 101, 102, … */
const printJob = (): string => `echo $((100 + $(wc -l < ${join(folder, "sbatch.calls")})))`;

beforeEach(() => {
  folder = join(parent, String(number++));
  mkdirSync(join(folder, "bin"), { recursive: true });
  vi.stubEnv("PATH", `${join(folder, "bin")}${delimiter}/usr/bin${delimiter}/bin`);
  fakeCommand("sinfo", "echo gpu; echo cpu");
  fakeCommand("squeue", "true");
  fakeCommand("scancel", "true");
  fakeCommand("sbatch", printJob());
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

const createOptions = (changes: Partial<SlurmOptions> = {}, slurm: object = {}): SlurmOptions => ({
  settings: sweepSettingsSchema.parse({ slurm }).slurm,
  jobs: null,
  detach: true,
  trust: "data",
  pollMilliseconds: 1,
  ...changes,
});

describe("a sweep on Slurm", () => {
  it("is submitted as one job array per phase, and later phases wait for earlier ones", async () => {
    const { out, plan } = await writePlan({ evaluation: { attacks: { greedy: null }, numExamples: 5 } });
    const settings = { partition: "gpu", gpus: 1, cpus: 4, time: "2:00:00", memory: "16G", options: ["--account=nlp"] };
    await runOnSlurm(out, plan, createOptions({}, settings));
    const submitted = calls("sbatch");
    expect(submitted).toHaveLength(2);
    expect(submitted[0]).toMatch(
      /--parsable --job-name=temper-\w{8} --array=0-2 .*--requeue --signal=B:TERM@60 --cpus-per-task=4 --partition=gpu --gres=gpu:1 --time=2:00:00 --mem=16G --account=nlp --wrap=exec .*main\.js worker --sweep .*out --phase 0/,
    );
    expect(submitted[1]).toMatch(/--array=0-2 .*--dependency=afterany:101 .*--phase 1/);
  });

  it("has as many workers as --jobs allows", async () => {
    const { out, plan } = await writePlan();
    await runOnSlurm(out, plan, createOptions({ jobs: 2 }));
    expect(calls("sbatch")[0]).toMatch(/--array=0-1 /);
  });

  it("trains the runs that start from a stage after the stage", async () => {
    const rows = { plain: null, robust: { model: "stage:teacher" } };
    const { out, plan } = await writePlan({ stages: { teacher: { seed: 9 } }, rows, seeds: [0], baseline: null });
    await runOnSlurm(out, plan, createOptions());
    const submitted = calls("sbatch");
    expect(submitted).toHaveLength(2);
    expect(submitted[0]).toMatch(/--array=0-1 /);
    expect(submitted[1]).toMatch(/--array=0-0 .*--dependency=afterany:101 /);
  });

  it("escapes % in the name of the folder", async () => {
    const { sweep, plan } = await writePlan();
    const out = join(folder, "50%j off");
    await writeSweepPlan(out, sweep);
    await runOnSlurm(out, plan, createOptions());
    expect(calls("sbatch")[0]).toContain(`--output=${join(folder, "50%%j off", "slurm", "%A_%a.log")}`);
  });

  it("is completed by concurrent workers, each of which takes what nobody else works on", async () => {
    // A cluster that runs all tasks of a job at once, before sbatch returns.
    fakeCommand(
      "sbatch",
      `for arg; do case $arg in --wrap=*) wrap=\${arg#--wrap=};; --array=0-*) last=\${arg#--array=0-};; esac; done
for i in $(seq 0 $last); do SLURM_ARRAY_TASK_ID=$i sh -c "$wrap" > ${folder}/task-$i.log 2>&1 & done
wait
${printJob()}`,
    );
    const rows = { standard: null, dropless: { train: { dropout: false } } };
    const evaluation = { attacks: { greedy: null }, numExamples: 5 };
    const { out, plan } = await writePlan({ rows, evaluation, seeds: [0] });
    expect(await runOnSlurm(out, plan, createOptions({ detach: false }))).toEqual([]);
    expect(calls("sbatch")).toHaveLength(2);
    const [file, local] = [join(folder, "sweep.yaml"), join(folder, "local")];
    await sweep({ file, out: local, estimate: false });
    // Nothing is left to do but the table.
    await sweep({ file, out, estimate: false, resume: true });
    expect(readTable(out)).toEqual(readTable(local));
    for (const run of readdirSync(join(out, "runs"))) {
      const log = readFileSync(join(out, "runs", run, "log.txt"), "utf8");
      expect(log.match(/^# .*train\.request\.json$/gm), log).toHaveLength(1);
      expect(log.match(/^# .*attack\.request\.json$/gm), log).toHaveLength(1);
    }
  });

  it("follows the jobs of an earlier call, and submits what they have left", async () => {
    const { out, plan } = await writePlan();
    const countdown = join(folder, "countdown");
    writeFileSync(countdown, "3");
    fakeCommand(
      "squeue",
      `n=$(cat ${countdown}); if [ $n -gt 0 ]; then echo $((n - 1)) > ${countdown}; echo '7|PENDING|PartitionConfig'; fi`,
    );
    const messages: string[] = [];
    const onEvent: SlurmOptions["onEvent"] = (event) => event.type === "warning" && messages.push(event.message);
    const failures = await runOnSlurm(out, plan, createOptions({ detach: false, onEvent }));
    expect(readFileSync(countdown, "utf8").trim()).toBe("0");
    expect(messages).toEqual([
      expect.stringMatching(/^The jobs of an earlier call are still in the queue \(squeue --name=temper-\w{8}\)\.$/),
      "Slurm does not start job 7: PartitionConfig. It may need more than the partition has.",
    ]);
    // Jobs that end without any progress are not submitted again.
    expect(calls("sbatch")).toHaveLength(1);
    expect(failures.map(({ error }) => error)).toEqual(
      Array.from({ length: 3 }, () => expect.stringMatching(/left the queue without a result/)),
    );
  });

  it("cancels its jobs when it is stopped", async () => {
    const { out, plan } = await writePlan();
    const stop = new AbortController();
    fakeCommand("squeue", `if [ -s ${join(folder, "sbatch.calls")} ]; then echo '101|RUNNING|None'; fi`);
    const onEvent: SlurmOptions["onEvent"] = (event) => event.type === "phase" && stop.abort();
    await runOnSlurm(out, plan, createOptions({ detach: false, stop: stop.signal, onEvent }));
    expect(calls("scancel")).toEqual(["101"]);
    expect(calls("sbatch")).toHaveLength(1);
  });

  it.each([
    [
      ["--partition", "gpus"],
      /gpus: there is no such partition \(did you mean "gpu"\?\)\. The partitions are gpu, cpu/,
    ],
    [["--time", "soon"], /slurm\.time: expected a time in Slurm's format/],
  ])("rejects %o before it writes or submits anything", async (flags, message) => {
    const out = join(folder, "never");
    const args = ["sweep", await writeTinySweep(folder), "--out", out, "--backend", "slurm", ...flags];
    expect(await getError(args)).toMatch(message);
    expect(existsSync(out)).toBe(false);
    expect(calls("sbatch")).toEqual([]);
  });

  it("reports why sbatch rejected a job, the command and what to do", async () => {
    const { out, plan } = await writePlan();
    fakeCommand("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1");
    await expect(runOnSlurm(out, plan, createOptions())).rejects.toThrow(
      /sbatch rejected the job: sbatch: error: Invalid account\nThe command was: sbatch .*\n.*pass --resume/,
    );
  });

  it("reports that Slurm is missing or does not respond, and leaves no folder behind", async () => {
    const file = await writeTinySweep(folder);
    fakeCommand("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    const out = join(folder, "silent");
    const args = ["sweep", file, "--out", out, "--backend", "slurm"];
    expect(await getError(args)).toMatch(/squeue failed: .*Unable to contact/);
    vi.stubEnv("PATH", "/nowhere");
    expect(await getError(args)).toMatch(/this host has no sinfo\. Use a login node/);
    expect(existsSync(out)).toBe(false);
  });
});
