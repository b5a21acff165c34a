import { spawn } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../src/tensor/random.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import { buildIfStale, main } from "./built.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
const names = ["pwws", "genetic"];
const totalKills = chooseExtent(1, 20);
const examples = chooseExtent(30, 150);
let victim: TinyVictim;

beforeAll(async () => {
  buildIfStale();
  victim = await tinyVictim(folder, {}, examples);
}, 240_000);

/** Starts a real process. Each folder has its own cache, so that no attack uses scores of another. */
function start(out: string, ...more: string[]) {
  const flags = ["--data", victim.data, ...columns, "--num-examples", String(examples), "--concurrency", "8"];
  const attacks = ["--attack", "pwws", "--attack", "genetic:population=8,iterations=6"];
  const child = spawn(
    process.execPath,
    [main, "attack", victim.run, ...flags, ...attacks, "--device", "cpu", "--threads", "1", "--out", out, ...more],
    {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, TEMPER_CACHE: join(out, "cache") },
    },
  );
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  const ended = new Promise<{ code: number | null; signal: string | null; stderr: string }>((resolve) =>
    child.once("exit", (code, signal) => resolve({ code, signal, stderr })),
  );
  return { child, ended };
}

const getSize = (out: string): number =>
  names.reduce((sum, name) => sum + (statSync(join(out, `${name}.jsonl`), { throwIfNoEntry: false })?.size ?? 0), 0);
const journals = (out: string): string[] => names.map((name) => readFileSync(join(out, `${name}.jsonl`), "utf8"));

test(`killed ${totalKills} times and resumed, an attack writes identical journals that verify`, async () => {
  const whole = join(folder, "whole");
  expect(await start(whole).ended).toMatchObject({ code: 0 });
  const total = getSize(whole);
  const rng = new Rng("kills");
  const out = join(folder, "killed");
  let kills = 0;
  for (let resume: string[] = []; ; resume = ["--resume"]) {
    const { child, ended } = start(out, ...resume);
    let over = false;
    void ended.then(() => {
      over = true;
    });
    if (kills < totalKills) {
      // Anywhere in the next part of the work, and up to 10 ms later.
      const target = getSize(out) + rng.integer(Math.ceil(total / (1.5 * totalKills)));
      while (!over && getSize(out) < target) await delay(1);
      await delay(rng.integer(10));
      child.kill("SIGKILL");
    }
    const { code, signal } = await ended;
    if (signal === "SIGKILL") kills++;
    else {
      expect(code).toBe(0);
      break;
    }
  }
  expect(kills).toBe(totalKills);
  expect(journals(out)).toEqual(journals(whole));
  const paths = names.map((name) => join(out, `${name}.jsonl`));
  const verify = spawn(process.execPath, [main, "verify", ...paths, "--model", victim.run, "--device", "cpu"], {
    stdio: "ignore",
  });
  expect(await new Promise((resolve) => verify.once("exit", resolve))).toBe(0);
}, 240_000);

test("a second attack in the same folder is rejected. Ctrl-C prints how to continue, and that works", async () => {
  const out = join(folder, "interrupted");
  const { child, ended } = start(out);
  while (getSize(out) < 10_000) await delay(5);
  // Paused, so that it does not finish before the second one starts.
  child.kill("SIGSTOP");
  expect(await start(out, "--resume").ended).toMatchObject({
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
  expect(await start(out, "--resume").ended).toMatchObject({ code: 0 });
  expect(journals(out)).toEqual(journals(join(folder, "whole")));
}, 120_000);
