import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, it, vi } from "vitest";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { main } from "../cli/built.js";
import { invoke } from "../cli/invoke.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";

const [processes, totalKills] = [4, 3];
const isLong = chooseExtent(0, 1) === 1;
const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  if (!isLong) return;
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(folder, {}, 48);
});

const createFlags = (out: string): string[] => [
  ...["attack", victim.run, "--data", victim.data, "--text-column", "text", "--label-column", "label"],
  ...["--attack", "genetic:population=8,iterations=6", "--num-examples", "48", "--out", out],
  ...["--device", "cpu", "--threads", "1", "--concurrency", "4", "--quiet"],
];

function countLines(shards: string): number {
  try {
    return readdirSync(shards)
      .filter((name) => name.endsWith(".jsonl"))
      .reduce((sum, name) => sum + readFileSync(join(shards, name), "utf8").split("\n").length - 1, 0);
  } catch {
    // The shards do not exist yet, or the attack has just removed them.
    return 0;
  }
}

it.runIf(isLong)(
  `${processes} processes, one killed ${totalKills} times, write the journal of a single process`,
  async () => {
    const [whole, out] = [join(folder, "whole"), join(folder, "sharded")];
    expect(await invoke(createFlags(whole))).toMatchObject({ code: 0 });
    const child = spawn(process.execPath, [main, ...createFlags(out), "--processes", String(processes)], {
      stdio: "ignore",
      env: { ...process.env, TEMPER_CACHE: join(folder, "cache-sharded") },
    });
    let isOver = false;
    const ended = new Promise((resolve) => child.once("exit", resolve)).finally(() => {
      isOver = true;
    });
    let kills = 0;
    while (kills < totalKills) {
      const before = countLines(join(out, "shards", "genetic"));
      while (!isOver && countLines(join(out, "shards", "genetic")) < before + 3) await delay(5);
      if (isOver) break;
      try {
        const worker = execFileSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" }).split("\n")[0]!;
        process.kill(Number(worker), "SIGKILL");
        kills++;
      } catch {
        // The worker has just ended.
      }
    }
    expect(await ended).toBe(0);
    expect(kills).toBeGreaterThan(0);
    const journal = join(out, "genetic.jsonl");
    expect(readFileSync(journal, "utf8")).toBe(readFileSync(join(whole, "genetic.jsonl"), "utf8"));
    expect(existsSync(join(out, "shards"))).toBe(false);
    expect(await invoke(["verify", journal, "--model", victim.run, "--device", "cpu", "--quiet"])).toMatchObject({
      code: 0,
    });
  },
);
