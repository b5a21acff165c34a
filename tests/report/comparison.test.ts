import { join } from "node:path";
import { expect, test } from "vitest";
import { mcNemar, wilsonInterval } from "../../src/evaluation/statistics.js";
import { compareGroups } from "../../src/report/comparison.js";
import { groupRuns } from "../../src/report/groups.js";
import { readReportRun } from "../../src/report/report-run.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { expectClose, float64, matchClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { createAttackResults, writeRun } from "./run-folder.js";

const folder = temporaryFolder();
let next = 0;

async function groupFolders(folders: readonly string[]) {
  return groupRuns(await Promise.all((await RunFolder.find(folders)).map(readReportRun)));
}

async function compareTasks(runs: Parameters<typeof writeRun>[1][]) {
  const folders = await Promise.all(runs.map((run) => writeRun(join(folder, String(next++)), run)));
  return (await groupFolders(folders)).map((task) => ({ task, rows: compareGroups(task) }));
}

/** Compares runs of one task. */
async function compareRuns(runs: Parameters<typeof writeRun>[1][]) {
  const [{ rows } = { rows: [] }] = await compareTasks(runs);
  return rows;
}

test("one seed: accuracies, Wilson interval and McNemar's test on the same texts", async () => {
  const [standard, robust] = [`${"s".repeat(12)}${"f".repeat(6)}kk`, `${"f".repeat(17)}skk`];
  const rows = await compareRuns([
    { attacks: { pwws: createAttackResults(standard) } },
    { methods: ["ascc"], attacks: { pwws: createAttackResults(robust) } },
  ]);
  const [plain, ascc] = rows;
  expect(plain).toMatchObject({ group: { name: "standard" } });
  expect(plain!.metrics.get("clean")!.value).toBe(0.9);
  expect(plain!.metrics.has("worst-case")).toBe(false);
  expect(plain!.metrics.get("pwws")).toMatchObject({ value: 0.3, comparison: null, examples: 20 });
  const under = ascc!.metrics.get("pwws")!;
  expectClose(under.value, 0.85, float64);
  expectClose(under.interval!.low, wilsonInterval(17, 20).low, float64);
  // The table has two tests (accuracy and under attack), so Holm doubles the smallest p-value.
  expect(under.comparison!.p).toMatchObject({ mcNemar: mcNemar(12, 1).exact, corrected: 2 * mcNemar(12, 1).exact });
  expect(under.comparison!).toMatchObject({ better: "second", difference: matchClose(-0.55, float64) });
  expect(ascc!.metrics.get("accuracy")!.comparison).toMatchObject({ difference: 0, better: null });
  expect(ascc!.metrics.get("clean")!.comparison).toBeNull();
});

test("several seeds form one group and are compared by the bootstrap", async () => {
  const runs = [0, 1, 2].flatMap((seed) => [
    { seed, accuracy: 0.9 + seed / 100, attacks: { pwws: createAttackResults("ssssssssff") } },
    { seed, methods: ["rift"], attacks: { pwws: createAttackResults("ffffffffff") } },
  ]);
  const rows = await compareRuns(runs);
  expect(rows.map(({ group }) => [group.name, group.runs.length])).toEqual([
    ["standard", 3],
    ["rift", 3],
  ]);
  expect(rows[0]!.metrics.get("accuracy")).toMatchObject({
    value: matchClose(0.91, float64),
    std: matchClose(0.01, { ...float64, scale: 0.91 }),
    examples: 1000,
  });
  const { comparison } = rows[1]!.metrics.get("pwws")!;
  expect(comparison).toMatchObject({ better: "second", difference: matchClose(-0.8, float64), p: { mcNemar: null } });
  expect(comparison!.p.corrected).toBeLessThan(0.05);
});

test("worst case: correct only if every attack failed", async () => {
  const rows = await compareRuns([
    { attacks: { genetic: createAttackResults("fsfk"), pwws: createAttackResults("ffsk") } },
  ]);
  expect(rows[0]!.metrics.get("worst-case")).toMatchObject({ value: 0.25 });
});

test("runs of the same methods are named by their differences, and tasks are separate", async () => {
  const tasks = await compareTasks([{ methods: ["ascc:beta=4"] }, { methods: ["ascc:beta=10"] }, { task: "sst2" }]);
  expect(tasks.map(({ task }) => [task.task, task.groups.map(({ name }) => name), task.baseline.name])).toEqual([
    ["spam", ["ascc (beta 4)", "ascc (beta 10)"], "ascc (beta 4)"],
    ["sst2", ["standard"], "standard"],
  ]);
});

test("a run that is named twice counts once, and a repeated seed is a separate group", async () => {
  const [once, again] = [join(folder, "once"), join(folder, "again")];
  for (const path of [once, again]) await writeRun(path, { attacks: { pwws: createAttackResults("ssff") } });
  const listGroups = async (folders: string[]) =>
    (await groupFolders(folders)).flatMap(({ groups }) => groups.map(({ name, runs }) => [name, runs.length]));
  expect(await listGroups([once, `${once}/`, join(once, "..", "once", ".")])).toEqual([["standard", 1]]);
  expect(await listGroups([once, again])).toEqual([
    [`standard (${once})`, 1],
    [`standard (${again})`, 1],
  ]);
});

test("a group is measured on its finished runs", async () => {
  const [row] = await compareRuns([{ accuracy: 0.9 }, { seed: 1, finished: false }]);
  expect(row!.group.runs).toHaveLength(2);
  expect(row!.metrics.get("accuracy")).toMatchObject({ value: 0.9, std: null });
});
