import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../src/tensor/random.js";
import { buildIfStale, main } from "../cli/built.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const totalKills = chooseExtent(1, 20);
/** Long enough for every kill, and no longer: most of the time is training. */
const epochs = chooseExtent(6, 12);
let flags: string[];

beforeAll(async () => {
  buildIfStale();
  const { model, data } = await tinyRun(folder);
  flags = ["--model", model, "--data", data!, "--text-column", "text", "--label-column", "label"];
  flags.push("--device", "cpu", "--threads", "1", "--quiet");
  flags.push("--epochs", String(epochs), "--batch-size", "8", "--learning-rate", "1e-2", "--set", "train.saveSteps=5");
}, 180_000);

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
}

function start(args: readonly string[]): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [main, "train", ...args], { stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr!.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  return {
    child,
    ended: new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal, stderr }))),
  };
}

const size = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** The files that must not depend on how often the run was killed. */
function readResultFiles(out: string): Record<string, string> {
  const files = ["events.jsonl", "results.json", "model/model.safetensors", "model/config.json"];
  return Object.fromEntries(files.map((file) => [file, readFileSync(join(out, file)).toString("base64")]));
}

/** Runs and kills a process at random moments until the run ends. Returns the number of kills. */
async function runAndKill(out: string, kills: number, rng: Rng): Promise<number> {
  const events = join(out, "events.jsonl");
  let hits = 0;
  for (let resume = false; ; resume = true) {
    const { child, ended } = start(resume ? ["--resume", "--out", out, "--quiet"] : [...flags, "--out", out]);
    let over = false;
    void ended.then(() => {
      over = true;
    });
    if (hits < kills) {
      // During the next steps, while a checkpoint is written, or before the first step.
      const before = size(events);
      const target = before + rng.integer(2500);
      const early = rng.next() < 0.15;
      while (!over && (early ? size(events) === 0 && before === 0 : size(events) < target)) await delay(1);
      await delay(rng.integer(8));
      child.kill("SIGKILL");
    }
    const { code, signal, stderr } = await ended;
    if (signal === "SIGKILL") {
      hits++;
      // A run that was killed before it wrote its config cannot be resumed.
      if (size(join(out, "config.yaml")) === 0) resume = false;
      continue;
    }
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return hits;
  }
}

test(`a run that is killed ${totalKills} times ends bitwise identically`, { timeout: 240_000 }, async () => {
  const whole = join(folder, "whole");
  expect(await start([...flags, "--out", whole]).ended).toMatchObject({ code: 0 });
  const expected = readResultFiles(whole);
  let total = 0;
  for (let round = 0; total < totalKills; round++) {
    const lanes = [0, 1].slice(0, totalKills - total);
    const outs = lanes.map((lane) => join(folder, `killed-${round}-${lane}`));
    const hits = await Promise.all(
      outs.map((out) => runAndKill(out, Math.ceil((totalKills - total) / lanes.length), new Rng(out.slice(-10)))),
    );
    for (const out of outs) expect(readResultFiles(out)).toEqual(expected);
    total += hits.reduce((sum, count) => sum + count, 0);
  }
});

test("SIGINT and SIGHUP save the run and print how to continue, and that works", { timeout: 60_000 }, async () => {
  const out = join(folder, "interrupted twice");
  let args = [...flags, "--out", out];
  // Ctrl-C, and then a closed terminal.
  for (const signal of ["SIGINT", "SIGHUP"] as const) {
    const { child, ended } = start(args);
    const before = size(join(out, "events.jsonl"));
    while (size(join(out, "events.jsonl")) < before + 1000) await delay(2);
    child.kill(signal);
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(stderr).toMatch(new RegExp(`Stopped after step \\d+ of ${12 * epochs}`, "i"));
    expect(stderr).toContain(`Continue with: temper train --resume --out '${out}'\n`);
    args = ["--resume", "--out", out, "--quiet"];
  }
  expect(await start(args).ended).toMatchObject({ code: 0, stderr: "" });
  expect(readResultFiles(out)).toEqual(readResultFiles(join(folder, "whole")));
});
