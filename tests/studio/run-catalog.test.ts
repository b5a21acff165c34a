import { cpSync } from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join, relative, sep } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { LiveMessage } from "../../src/studio/api.js";
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

test("the first rows are sent before the other runs are looked for, and later ones replace them", async () => {
  const folder = temporaryFolder();
  await writeRun(join(folder, "run-0"), { attacks: { pwws: [] } });
  for (let i = 1; i < numRuns; i++) cpSync(join(folder, "run-0"), join(folder, `run-${i}`), { recursive: true });
  for (const start of ["first", "with the rows of the last time"]) {
    const touched = recordFolders(folder);
    const messages: LiveMessage[] = [];
    const numTouched: number[] = [];
    const onMessage = (message: LiveMessage): void => {
      messages.push(message);
      numTouched.push(touched.size);
    };
    const catalog = new RunCatalog([folder], onMessage, join(folder, ".studio", "rows.json"));
    await catalog.refresh();
    const [first] = messages;
    expect({ start, rows: first?.type === "runs" && first.rows.length }).toEqual({ start, rows: numFirstRows });
    // Folders are looked for in groups, so a part of the next group may be known.
    expect(numTouched[0]).toBeGreaterThanOrEqual(numFirstRows);
    expect(numTouched[0]).toBeLessThanOrEqual(2 * numFirstRows);
    const rows = messages.flatMap((message) => (message.type === "runs" ? message.rows : []));
    expect(new Set(rows.map(({ id }) => id)).size).toBe(numRuns);
    expect(rows.every(({ state }) => state === "finished")).toBe(true);
    expect(touched.size).toBe(numRuns);
    expect(messages.at(-1)).toEqual({ type: "ready" });
    vi.restoreAllMocks();
  }
});
