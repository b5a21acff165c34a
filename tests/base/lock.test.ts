import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { acquireLock, findLivingOwner, tryLock } from "../../src/base/lock.js";
import { isAlive } from "../../src/base/processes.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let count = 0;
let path: string;
beforeEach(() => {
  path = join(folder, `${count++}.lock`);
});
afterEach(() => {
  vi.useRealTimers();
});

const readOwner = (): Record<string, unknown> => JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
const writeOwner = (changes: object): void => writeFileSync(path, JSON.stringify({ ...readOwner(), ...changes }));
const readStat = (pid: number): string => readFileSync(`/proc/${pid}/stat`, "utf8");

describe("locks", () => {
  it("exclude a second owner until they are released", () => {
    const release = tryLock(path) as () => void;
    expect(findLivingOwner(path)).toMatchObject({ pid: process.pid, host: hostname() });
    expect(() => acquireLock(path)).toThrow(`${folder}: process ${process.pid} is writing there`);
    release();
    expect(existsSync(path)).toBe(false);
    (tryLock(path) as () => void)();
    expect(readdirSync(folder)).toEqual([]);
  });

  it.skipIf(process.platform !== "linux")("of a zombie are free (needs /proc)", async () => {
    // The shell starts a child and becomes a program that never waits for it, so it stays a zombie.
    const parent = spawn("sh", ["-c", "sleep 0.05 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
    try {
      const [line] = (await once(parent.stdout, "data")) as [Buffer];
      const pid = Number(line.toString());
      const started = readStat(pid)
        .replace(/^.*\)\s/s, "")
        .split(" ")[19];
      while (!/\) Z /.test(readStat(pid))) await delay(5);
      (tryLock(path) as () => void)();
      tryLock(path);
      writeOwner({ pid, started });
      process.kill(pid, 0); // The kernel still knows the zombie.
      expect(isAlive(pid)).toBe(false);
      expect(findLivingOwner(path)).toBeNull();
      expect(tryLock(path)).toBeTypeOf("function");
    } finally {
      parent.kill();
    }
  });

  it("of another host are compared by the clock of the file system", () => {
    tryLock(path);
    writeOwner({ host: "elsewhere" });
    // This host's clock is a day ahead. The lock was renewed just now, so it is alive.
    vi.useFakeTimers({ now: Date.now() + 86_400_000, toFake: ["Date"] });
    expect(findLivingOwner(path)).toMatchObject({ host: "elsewhere" });
    // This host's clock is a day behind. The lock is ten minutes old, so it is stale.
    vi.useRealTimers();
    const old = new Date(Date.now() - 600_000);
    utimesSync(path, old, old);
    vi.useFakeTimers({ now: Date.now() - 86_400_000, toFake: ["Date"] });
    expect(findLivingOwner(path)).toBeNull();
    expect(readdirSync(folder)).not.toContainEqual(expect.stringMatching(/lock\../));
  });

  it("of another process namespace on the same host are not judged by process IDs", () => {
    tryLock(path);
    writeOwner({ pid: 2 ** 22 - 1, system: "another boot" });
    expect(findLivingOwner(path)).not.toBeNull();
  });

  it("are not removed by an owner that lost them", () => {
    const release = tryLock(path) as () => void;
    writeOwner({ token: "taken over" });
    release();
    expect(readOwner().token).toBe("taken over");
  });

  it("that cannot be read are not free", () => {
    mkdirSync(path); // reading it fails with EISDIR
    expect(() => findLivingOwner(path)).toThrow(/cannot read the lock/);
    expect(() => tryLock(path)).toThrow(/cannot read the lock/);
    expect(existsSync(path)).toBe(true);
  });
});
