import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { readFirstHost, readRendezvous } from "../../src/jobs/rendezvous.js";
import { ProcessGroup } from "../../src/tensor/index.js";
import { main } from "../cli/built.js";
import { invoke } from "../cli/invoke.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeReviews, writeTinyBert } from "../tiny-run.js";
import { findFreePort } from "./processes.js";

const folder = temporaryFolder();
let flags: string[];

beforeAll(async () => {
  flags = [
    ...[
      "train",
      "--model",
      await writeTinyBert(join(folder, "bert")),
      "--data",
      writeReviews(join(folder, "data.tsv")),
    ],
    ...["--text-column", "text", "--label-column", "label", "--batch-size", "6", "--learning-rate", "1e-3"],
    ...["--epochs", "4", "--set", "train.saveSteps=5", "--device", "cpu", "--quiet"],
  ];
});

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

function start(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, OMP_NUM_THREADS: "1", TEMPER_CACHE: join(folder, "cache"), ...env },
  });
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<Ended>((resolve) => child.once("close", (code) => resolve({ code, stderr })));
  return { child, ended };
}

const listChildren = (pid: number): number[] =>
  spawnSync("pgrep", ["-P", String(pid)], { encoding: "utf8" })
    .stdout.trim()
    .split("\n")
    .filter(Boolean)
    .map(Number);

async function waitForCheckpoint(checkpoints: string): Promise<void> {
  while (!existsSync(checkpoints) || !readdirSync(checkpoints).some((name) => name.startsWith("step-"))) await delay(5);
}

/** Writes the two files of mr. The texts depend on the name of the folder. */
function writeMr(root: string): void {
  mkdirSync(join(root, "mr"), { recursive: true });
  for (const [name, label] of Object.entries({ neg: "negative", pos: "positive" })) {
    const texts = reviews(60, root).filter((review) => review.label === label);
    writeFileSync(join(root, "mr", `rt-polarity.${name}`), texts.map(({ text }) => text).join("\n"));
  }
}

const readRun = (out: string): string[] =>
  ["events.jsonl", "results.json", "model/model.safetensors"].map((name) => readFileSync(join(out, name), "latin1"));

const createEnvironment = (rank: number, port: number): Record<string, string> => ({
  ...{ RANK: String(rank), LOCAL_RANK: String(rank), WORLD_SIZE: "2" },
  ...{ MASTER_ADDR: "127.0.0.1", MASTER_PORT: String(port) },
});

describe("temper train --processes", () => {
  it.runIf(chooseExtent(0, 1) === 1)(
    "after a killed process, the others name it, and --resume gives the undisturbed run",
    async () => {
      const whole = join(folder, "whole");
      // Long enough that the kill hits a training in progress.
      const long = flags.map((word, i) => (flags[i - 1] === "--epochs" ? "40" : word));
      expect(await start([...long, "--processes", "2", "--out", whole]).ended).toMatchObject({ code: 0, stderr: "" });

      const out = join(folder, "killed");
      const { child, ended } = start([...long, "--resume", "--out", out, "--processes", "2"]);
      await waitForCheckpoint(join(out, "checkpoints"));
      process.kill(listChildren(child.pid!)[1]!, "SIGKILL");
      const { code, stderr } = await ended;
      expect(code, stderr).toBe(1);
      expect(stderr).toMatch(/rank 1 of 2 was killed by SIGKILL/);
      expect(stderr).toMatch(/^temper: Rank 1 of 2 has died\. All processes stop; continue with --resume\.$/m);
      // The config of the run is enough to continue it.
      const again = ["train", "--resume", "--out", out, "--processes", "2", "--quiet"];
      expect(await start(again).ended).toMatchObject({ code: 0 });
      expect(readRun(out)).toEqual(readRun(whole));
    },
  );

  it.runIf(chooseExtent(0, 1) === 1)(
    "processes with other settings or other data are rejected, and nothing is written",
    async () => {
      const out = join(folder, "different");
      // Both processes train on mr, but each host has its own file.
      const roots = ["first", "second"].map((name) => join(folder, name));
      for (const root of roots) writeMr(root);
      const args = [...flags.slice(0, 3), "--task", "mr", ...flags.slice(9), "--out", out];
      const run = async (second: readonly string[]): Promise<Ended[]> => {
        const port = await findFreePort();
        return Promise.all(
          [args, second].map(
            (words, rank) => start(words, { ...createEnvironment(rank, port), TEMPER_DATA: roots[rank]! }).ended,
          ),
        );
      };
      const expectRejection = (ended: readonly Ended[], message: string): void => {
        for (const { code, stderr } of ended) {
          expect(stderr).toContain(message);
          expect(code).toBe(2);
        }
        expect(existsSync(out)).toBe(false);
      };
      const settings = await run([...args, "--learning-rate", "1e-4"]);
      expectRejection(settings, "The processes differ in train.learningRate (rank 0: 0.001, rank 1: 0.0001)");
      expectRejection(await run(args), "The processes differ in training data (rank 0: ");
    },
  );

  it("a batch that the processes cannot share is rejected", async () => {
    const result = await invoke([...flags, "--processes", "4", "--out", join(folder, "odd")]);
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining("4 processes cannot share it equally") });
    expect(existsSync(join(folder, "odd"))).toBe(false);
  });
});

describe("the meeting of processes", () => {
  it("a process that does not start is named", async () => {
    const port = await findFreePort();
    expect(() => ProcessGroup.open({ rank: 0, size: 3, host: "127.0.0.1", port, timeout: 0.3 })).toThrow(
      "Ranks 1 and 2 of 3 did not start within 0.3 s. Start all 3 processes, or a smaller group.",
    );
  });

  it("reads the variables of torchrun and srun", () => {
    expect(readRendezvous({}, 5)).toBeNull();
    expect(readRendezvous({ WORLD_SIZE: "1" }, 5)).toBeNull();
    const torchrun = { RANK: "3", LOCAL_RANK: "1", WORLD_SIZE: "4", MASTER_ADDR: "gpu1", MASTER_PORT: "29500" };
    expect(readRendezvous(torchrun, 5)).toMatchObject({ rank: 3, localRank: 1, size: 4, host: "gpu1", port: 29500 });
    expect(() => readRendezvous({ ...torchrun, RANK: "4" }, 5)).toThrow("RANK: expected less than WORLD_SIZE 4");
    expect(() => readRendezvous({ WORLD_SIZE: "2", RANK: "0" }, 5)).toThrow("MASTER_ADDR and MASTER_PORT is not set");
    const srun = {
      SLURM_STEP_NUM_TASKS: "2",
      SLURM_PROCID: "1",
      SLURM_LOCALID: "0",
      SLURM_STEP_NODELIST: "gpu[07-09]",
    };
    expect(readRendezvous(srun, 5)).toMatchObject({ rank: 1, size: 2, localRank: 0, host: "gpu07" });
    expect(["a,b", "n[3,5]", "x1"].map(readFirstHost)).toEqual(["a", "n3", "x1"]);
  });
});
