import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../src/tensor/random.js";
import { buildIfStale, main } from "../cli/built.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
let flags: string[];

beforeAll(async () => {
  buildIfStale();
  const { model, data } = await tinyRun(folder);
  flags = [
    "--model",
    model,
    "--data",
    data!,
    "--text-column",
    "text",
    "--label-column",
    "label",
    "--device",
    "cpu",
    "--threads",
    "1",
    "--quiet",
  ];
  flags.push("--epochs", "12", "--batch-size", "8", "--learning-rate", "1e-2", "--set", "train.saveSteps=5");
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

/** All that a run leaves and that must not depend on how often it was killed. */
function remains(out: string): Record<string, string> {
  const files = ["events.jsonl", "results.json", "model/model.safetensors", "model/config.json"];
  return Object.fromEntries(files.map((file) => [file, readFileSync(join(out, file)).toString("base64")]));
}

/** Runs into a folder, killed again and again at moments that `rng` draws; returns how often it was hit. */
async function runUnderFire(out: string, kills: number, rng: Rng): Promise<number> {
  const events = join(out, "events.jsonl");
  let hits = 0;
  for (let resume = false; ; resume = true) {
    const { child, ended } = start(resume ? ["--resume", "--out", out, "--quiet"] : [...flags, "--out", out]);
    let over = false;
    void ended.then(() => {
      over = true;
    });
    if (hits < kills) {
      // Somewhere in the next updates, or while a checkpoint is written, or before the first.
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
      // Killed before it wrote its config, there is nothing to resume.
      if (size(join(out, "config.yaml")) === 0) resume = false;
      continue;
    }
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return hits;
  }
}

test("killed 20 times, a run ends as if it had never been", { timeout: 240_000 }, async () => {
  const whole = join(folder, "whole");
  expect(await start([...flags, "--out", whole]).ended).toMatchObject({ code: 0 });
  const expected = remains(whole);
  let total = 0;
  for (let round = 0; total < 20; round++) {
    const outs = [0, 1].map((lane) => join(folder, `killed-${round}-${lane}`));
    const hits = await Promise.all(
      outs.map((out) => runUnderFire(out, Math.ceil((20 - total) / 2), new Rng(out.slice(-10)))),
    );
    for (const out of outs) expect(remains(out)).toEqual(expected);
    total += hits.reduce((sum, count) => sum + count, 0);
  }
});

// Ctrl-C, and a terminal that is closed.
test.each(["SIGINT", "SIGHUP"] as const)(
  "%s saves, says how to go on, and that goes on",
  { timeout: 60_000 },
  async (signal) => {
    const out = join(folder, `interrupted by ${signal}`);
    const { child, ended } = start([...flags, "--out", out]);
    while (size(join(out, "events.jsonl")) < 1000) await delay(2);
    child.kill(signal);
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(stderr).toMatch(/stopped after step \d+ of 144; all of it is saved/);
    expect(stderr).toContain(`Go on with: temper train --resume --out '${out}'\n`);
    expect(await start(["--resume", "--out", out, "--quiet"]).ended).toMatchObject({ code: 0, stderr: "" });
    expect(remains(out)).toEqual(remains(join(folder, "whole")));
  },
);
