import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claim, type WorkUnit, waitForClaim } from "../../src/base/claim.js";
import { formatOwner } from "../../src/base/lock.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

/** A unit that counts its computations and ends when it is told to. */
function createUnit(name: string): WorkUnit<string> & { computed: number; finish(): void } {
  let result: string | null = null;
  let finish = (): void => undefined;
  const ended = new Promise<void>((resolve) => {
    finish = resolve;
  });
  return {
    lock: join(folder, `${name}.lock`),
    computed: 0,
    readResult: async () => result,
    async compute() {
      this.computed++;
      await ended;
      result = "the result";
      return result;
    },
    finish: () => finish(),
  };
}

test("one of several processes computes a unit, the others go on or wait for its result", async () => {
  const unit = createUnit("shared");
  const first = claim(unit);
  await expect.poll(() => existsSync(unit.lock)).toBe(true);
  const second = waitForClaim(unit);
  expect(await claim(unit)).toBeNull();
  unit.finish();
  expect(await Promise.all([first, second])).toEqual(["the result", "the result"]);
  expect(await claim(unit)).toBe("the result");
  expect(unit.computed).toBe(1);
  expect(existsSync(unit.lock)).toBe(false);
});

test("the unit of a dead process is open, and a failure releases it", async () => {
  const unit = createUnit("dead");
  const { pid } = spawnSync(process.execPath, ["--version"]);
  writeFileSync(unit.lock, formatOwner(pid));
  unit.finish();
  expect(await claim(unit)).toBe("the result");
  const failing = { ...createUnit("failing"), compute: () => Promise.reject(new Error("no space")) };
  await expect(claim(failing)).rejects.toThrow("no space");
  expect(existsSync(failing.lock)).toBe(false);
});

test("waiting ends if it is stopped", async () => {
  const unit = createUnit("stopped");
  writeFileSync(unit.lock, formatOwner(process.pid));
  const stop = new AbortController();
  const waiting = waitForClaim(unit, stop.signal);
  stop.abort();
  expect(await waiting).toBeNull();
  expect(unit.computed).toBe(0);
});
