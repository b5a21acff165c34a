import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../../src/base/rng.js";
import { main } from "../../cli/built.js";
import { invoke } from "../../cli/invoke.js";
import { chooseExtent } from "../../extent.js";
import { testLong } from "../../long.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyRun } from "../../tiny-run.js";

const folder = temporaryFolder();
const whole = join(folder, "whole");
const totalKills = chooseExtent(1, 20);
/** Long enough for every kill, and no longer: most of the time is training. */
const epochs = chooseExtent(4, 12);
let flags: string[];

beforeAll(async () => {
  const { model, data } = await tinyRun(folder);
  flags = ["--model", model, "--data", data!, "--text-column", "text", "--label-column", "label"];
  flags.push("--device", "cpu", "--threads", "1", "--quiet");
  flags.push("--epochs", String(epochs), "--batch-size", "8", "--learning-rate", "1e-2", "--set", "train.saveSteps=5");
  expect(await invoke(["train", ...flags, "--out", whole])).toMatchObject({ code: 0 });
});

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

test(`a run that is killed ${totalKills} times ends bitwise identically`, async () => {
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

/** Stops a run after some steps. Returns null if it ended before that. */
async function stopRun(args: readonly string[], out: string, signal: NodeJS.Signals): Promise<Ended | null> {
  const { child, ended } = start(args);
  const events = join(out, "events.jsonl");
  const before = size(events);
  while (size(events) < before + 1000 && child.exitCode === null) await delay(2);
  child.kill(signal);
  const end = await ended;
  return end.code === 0 ? null : end;
}

testLong("SIGINT and SIGHUP save the run and print how to continue, and that works", async () => {
  let out = join(folder, "interrupted");
  let args = [...flags, "--out", out];
  // Ctrl-C, and then a closed terminal.
  const signals: NodeJS.Signals[] = ["SIGINT", "SIGHUP"];
  for (let stops = 0; stops < signals.length; ) {
    const stopped = await stopRun(args, out, signals[stops]!);
    if (stopped === null) {
      [stops, out] = [0, `${out}-again`];
      args = [...flags, "--out", out];
      continue;
    }
    stops++;
    const { code, stderr } = stopped;
    expect(code).toBe(130);
    expect(stderr).toMatch(new RegExp(`Stopped after step \\d+ of ${12 * epochs}`, "i"));
    expect(stderr).toContain(`Continue with: temper train --resume --out ${out}\n`);
    args = ["--resume", "--out", out, "--quiet"];
  }
  expect(await invoke(["train", ...args])).toMatchObject({ code: 0, stderr: "" });
  expect(readResultFiles(out)).toEqual(readResultFiles(whole));
});
