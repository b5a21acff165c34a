import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { main } from "../cli/built.js";
import { temper } from "../sweeps/tiny-sweep.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

const cluster = process.env.TEMPER_TEST_SLURM === "1";
const minutes = 60_000;

function slurm(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: "utf8" });
}

async function waitUntil(what: string, isTrue: () => boolean, seconds = 90): Promise<void> {
  for (let i = 0; i < 20 * seconds; i++) {
    if (isTrue()) return;
    await delay(50);
  }
  throw new Error(`still not true after ${seconds} s: ${what}`);
}

const readRun = (out: string): string[] =>
  ["events.jsonl", "results.json", "model/model.safetensors"].map((name) => readFileSync(join(out, name), "latin1"));

// `make test-slurm` starts Slurm first.
describe.skipIf(!cluster)("several processes on a real Slurm cluster (make test-slurm)", () => {
  const folder = temporaryFolder();
  let training: string[];

  beforeAll(async () => {
    const model = await writeTinyBert(join(folder, "bert"));
    training = [
      ...["train", "--model", model, "--data", writeReviews(join(folder, "data.tsv")), "--text-column", "text"],
      ...["--label-column", "label", "--batch-size", "6", "--learning-rate", "1e-3", "--epochs", "30"],
      ...["--set", "train.saveSteps=20", "--device", "cpu", "--threads", "1", "--quiet"],
    ];
  }, 3 * minutes);

  it(
    "srun starts two tasks that train together, also after the job was queued again",
    async () => {
      const [local, out] = [join(folder, "local"), join(folder, "cluster")];
      expect(temper([...training, "--processes", "2", "--out", local])).toMatchObject({ status: 0, stderr: "" });

      const script = join(folder, "train.sh");
      const command = [process.execPath, resolve(main), ...training, "--out", out, "--resume"];
      writeFileSync(
        script,
        `#!/bin/sh\nexec srun --kill-on-bad-exit=1 ${command.map((word) => `'${word}'`).join(" ")}\n`,
      );
      const job = slurm(
        "sbatch",
        ...["--parsable", "--partition=temper", "--ntasks=2", "--requeue", "--time=10"],
        ...[`--output=${join(folder, "train-%j.log")}`, "--open-mode=append", script],
      ).trim();
      const log = (): string => readFileSync(join(folder, `train-${job}.log`), "utf8");
      const checkpoints = join(out, "checkpoints");
      await waitUntil("there is a checkpoint", () => existsSync(checkpoints) && readdirSync(checkpoints).length > 0);
      slurm("scontrol", "requeue", job);
      await waitUntil("it is queued again", () => /Restarts=1/.test(slurm("scontrol", "show", "job", job)));
      expect(existsSync(join(out, "results.json"))).toBe(false);
      await waitUntil(
        "it runs again",
        () => {
          // Slurm waits two minutes before it starts a requeued job. The test does not need to.
          spawnSync("scontrol", ["update", `JobId=${job}`, "StartTime=now"]);
          return slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i").includes(job);
        },
        180,
      );
      await waitUntil("the job has ended", () => !slurm("squeue", "--noheader", "--format=%i").includes(job), 180);
      expect(slurm("scontrol", "show", "job", job), log()).toContain("JobState=COMPLETED");
      expect(readRun(out)).toEqual(readRun(local));
    },
    6 * minutes,
  );
});
