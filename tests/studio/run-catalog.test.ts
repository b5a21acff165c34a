import { cpSync, rmSync } from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join, relative, sep } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { RunCatalog } from "../../src/studio/run-catalog.js";
import { writeRun } from "../report/run-folder.js";
import { temporaryFolder } from "../temporary.js";

const numRuns = 50;
const numFirstRows = 16;

/** The run folders directly below `folder` whose files are looked for or opened. */
function recordFolders(folder: string): Set<string> {
  const names = new Set<string>();
  for (const name of ["open", "access", "stat", "readFile", "readdir", "realpath"] as const) {
    const original = promises[name] as (...args: unknown[]) => unknown;
    vi.spyOn(promises, name as "open").mockImplementation(((path: unknown, ...rest: unknown[]) => {
      const inner = relative(folder, String(path));
      if (inner.startsWith("run-")) names.add(inner.split(sep)[0]!);
      return original(path, ...rest);
    }) as typeof promises.open);
  }
  syncBuiltinESMExports();
  return names;
}

afterEach(() => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

test("the first rows are there before the other runs are looked for, and later ones replace them", async () => {
  const folder = temporaryFolder();
  await writeRun(join(folder, "run-0"), { attacks: { pwws: [] } });
  for (let i = 1; i < numRuns; i++) cpSync(join(folder, "run-0"), join(folder, `run-${i}`), { recursive: true });
  const touched = recordFolders(folder);
  const catalog = new RunCatalog([folder]);
  const done = catalog.refresh();
  await expect.poll(() => catalog.getState(0).rows.length, { interval: 1 }).toBeGreaterThan(0);
  // Folders are looked for in groups, so a part of the next group may be known.
  expect(touched.size).toBeLessThanOrEqual(2 * numFirstRows);
  const first = catalog.getState(0);
  expect(first.isReady).toBe(false);
  await done;
  const { version, rows, isReady, isComplete } = catalog.getState(first.version);
  expect({ isReady, isComplete }).toEqual({ isReady: true, isComplete: false });
  expect(new Set(rows.map(({ id }) => id)).size).toBe(numRuns);
  expect(rows.every(({ state }) => state === "finished")).toBe(true);
  expect(touched.size).toBe(numRuns);
  // Only changes are sent. Without a run, the page must forget it.
  await catalog.refresh();
  expect(catalog.getState(version)).toMatchObject({ version, rows: [] });
  rmSync(join(folder, "run-7"), { recursive: true });
  await catalog.refresh();
  expect(catalog.getState(version)).toMatchObject({ isComplete: true, rows: { length: numRuns - 1 } });
});
