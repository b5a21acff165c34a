import { spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test, vi } from "vitest";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { chooseExtent } from "../extent.js";
import { withJitter } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { main } from "./built.js";
import { invoke } from "./invoke.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
const whole = join(folder, "whole");
const names = ["pwws", "genetic"];
const examples = chooseExtent(30, 150);
let victim: TinyVictim;

beforeAll(async () => {
  victim = await tinyVictim(folder, {}, examples);
  expect(await attackHere(whole)).toMatchObject({ code: 0 });
});

function createArguments(out: string): string[] {
  const flags = ["--data", victim.data, ...columns, "--num-examples", String(examples), "--concurrency", "8"];
  const attacks = ["--attack", "pwws", "--attack", "genetic:population=8,iterations=6"];
  return ["attack", victim.run, ...flags, ...attacks, "--device", "cpu", "--threads", "1", "--out", out];
}

// A resumed attack fills other batches than an undisturbed one. A row of a batch has the same bits whatever the others are,
// because our kernels compute it alone. The jitter moves the rest by shape and position, so these processes go without.
/** Starts a real process. Each folder has its own cache, so that no attack uses scores of another. */
function start(out: string, ...more: string[]) {
  const { TEMPER_JITTER: _, ...env } = process.env;
  const child = spawn(process.execPath, [main, ...createArguments(out), ...more], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...env, TEMPER_CACHE: join(out, "cache") },
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  const ended = new Promise<{ code: number | null; signal: string | null; stderr: string }>((resolve) =>
    child.once("exit", (code, signal) => resolve({ code, signal, stderr })),
  );
  return { child, ended };
}

/** Attacks in this process, which starts no other one. */
async function attackHere(out: string, ...more: string[]) {
  vi.stubEnv("TEMPER_CACHE", join(out, "cache"));
  const ended = await withJitter(null, () => invoke([...createArguments(out), "--quiet", ...more]));
  vi.unstubAllEnvs();
  return ended;
}

const getSize = (out: string): number =>
  names.reduce((sum, name) => sum + (statSync(join(out, `${name}.jsonl`), { throwIfNoEntry: false })?.size ?? 0), 0);
const journals = (out: string): string[] => names.map((name) => readFileSync(join(out, `${name}.jsonl`), "utf8"));

/** Starts an attack and pauses it in the middle of its work. One that ends before that is started again. */
async function startAndPause() {
  for (let round = 0; ; round++) {
    const out = join(folder, `interrupted-${round}`);
    const { child, ended } = start(out);
    while (getSize(out) < 10_000 && child.exitCode === null) await delay(1);
    child.kill("SIGSTOP");
    if (child.exitCode === null && getSize(out) < getSize(whole)) return { out, child, ended };
    child.kill("SIGCONT");
    await ended;
  }
}

test("a second attack in the same folder is rejected. Ctrl-C prints how to continue, and that works", async () => {
  const { out, child, ended } = await startAndPause();
  expect(await attackHere(out, "--resume")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("is writing there"),
  });
  child.kill("SIGCONT");
  child.kill("SIGINT");
  const { code, stderr } = await ended;
  expect(code).toBe(130);
  const [, again] = /Continue with: temper (.*)\n/.exec(stderr)!;
  expect(again).toContain(`--out ${out}`);
  expect(again).toMatch(/--resume$/);
  expect(await attackHere(out, "--resume")).toMatchObject({ code: 0 });
  expect(journals(out)).toEqual(journals(whole));
});
