import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { main } from "../cli/built.js";
import { startTemper, temper } from "../sweeps/tiny-sweep.js";
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
  let victim: TinyVictim;
  let training: string[];

  beforeAll(async () => {
    victim = await tinyVictim(join(folder, "victim"), {}, 48);
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

  it(
    "an attack in shards survives a canceled task and a killed submitter, and equals that of one process",
    async () => {
      const attack = (out: string, ...more: string[]): string[] => [
        ...["attack", victim.run, "--data", victim.data, "--text-column", "text", "--label-column", "label"],
        ...["--attack", "genetic:population=8,iterations=6", "--num-examples", "48", "--concurrency", "4"],
        ...["--device", "cpu", "--threads", "1", "--quiet", "--out", out, ...more],
      ];
      const [whole, out] = [join(folder, "whole"), join(folder, "sharded")];
      const environment = (name: string): Record<string, string> => ({ TEMPER_CACHE: join(folder, `cache-${name}`) });
      expect(temper(attack(whole), environment("whole"))).toMatchObject({ status: 0, stderr: "" });

      const options = ["--processes", "2", "--backend", "slurm", "--partition", "temper", "--time", "10"];
      const submitter = startTemper(attack(out, ...options), environment("sharded"));
      const shards = join(out, "shards", "genetic");
      const countLines = (): number =>
        existsSync(shards)
          ? readdirSync(shards)
              .filter((name) => name.endsWith(".jsonl"))
              .reduce((sum, name) => sum + readFileSync(join(shards, name), "utf8").split("\n").length - 1, 0)
          : 0;
      await waitUntil("some examples are done", () => countLines() >= 4);
      submitter.kill();
      await submitter.ended;
      const [task] = slurm("squeue", "--noheader", "--array", "--states=RUNNING", "--format=%F_%K").trim().split("\n");
      slurm("scancel", "--full", "--signal=KILL", task!);
      expect(existsSync(join(out, "genetic.jsonl"))).toBe(false);

      expect(temper(attack(out, ...options, "--resume"), environment("sharded"))).toMatchObject({
        status: 0,
        stderr: "",
      });
      const journal = join(out, "genetic.jsonl");
      expect(readFileSync(journal, "utf8")).toBe(readFileSync(join(whole, "genetic.jsonl"), "utf8"));
      expect(existsSync(join(out, "shards"))).toBe(false);
      expect(temper(["verify", journal, "--model", victim.run, "--device", "cpu", "--quiet"])).toMatchObject({
        status: 0,
      });
    },
    6 * minutes,
  );

  it(
    "a missing partition and a rejected job of an attack are reported, and --resume continues",
    () => {
      const out = join(folder, "bad");
      const attack = (...more: string[]) =>
        temper([
          ...["attack", victim.run, "--data", victim.data, "--text-column", "text", "--label-column", "label"],
          ...["--attack", "pwws", "--num-examples", "8", "--quiet", "--out", out, "--processes", "2"],
          ...["--backend", "slurm", ...more],
        ]);
      const missing = attack("--partition", "tempr");
      expect(missing.status).toBe(2);
      expect(missing.stderr).toMatch(/--partition tempr: there is no such partition.*did you mean "temper"/);
      expect(existsSync(out)).toBe(false);
      const rejected = attack("--gpus", "1");
      expect(rejected.status).toBe(2);
      expect(rejected.stderr).toMatch(/sbatch rejected the job: .*generic resource/);
      expect(attack("--resume")).toMatchObject({ status: 0, stderr: "" });
      expect(existsSync(join(out, "pwws.jsonl"))).toBe(true);
    },
    3 * minutes,
  );
});
