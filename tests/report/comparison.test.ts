import { join } from "node:path";
import { expect, test } from "vitest";
import type { AttackOutcome } from "../../src/attacks/result.js";
import { mcNemar } from "../../src/evaluation/statistics.js";
import { compareGroups } from "../../src/report/comparison.js";
import { groupRuns } from "../../src/report/groups.js";
import { readReportRuns } from "../../src/report/read-run.js";
import { temporaryFolder } from "../temporary.js";
import { attackResult, writeRun } from "./run-folder.js";

const folder = temporaryFolder();
let next = 0;

/** Outcomes of texts, a letter each: f held, s fooled, k wrong before. */
function journal(letters: string, prefix = "text") {
  const outcomes: Readonly<Record<string, AttackOutcome>> = { f: "failed", s: "success", k: "skipped" };
  return [...letters].map((letter, i) =>
    attackResult(`${prefix}-${i}`, "buy it now", outcomes[letter]!, letter === "s" ? { 0: "get" } : {}),
  );
}

async function compare(runs: Parameters<typeof writeRun>[1][]) {
  const folders = await Promise.all(runs.map((run) => writeRun(join(folder, String(next++)), run)));
  const tasks = groupRuns(await readReportRuns(folders));
  return tasks.map((task) => ({ task, rows: compareGroups(task) }));
}

/** The rows of runs on one task. */
async function compareOne(runs: Parameters<typeof writeRun>[1][]) {
  const [{ rows } = { rows: [] }] = await compare(runs);
  return rows;
}

test("one seed: shares, Wilson's interval, McNemar's test on the same texts", async () => {
  const [standard, robust] = [`${"s".repeat(12)}${"f".repeat(6)}kk`, `${"f".repeat(17)}skk`];
  const rows = await compareOne([
    { attacks: { pwws: journal(standard) } },
    { methods: ["ascc"], attacks: { pwws: journal(robust) } },
  ]);
  const [plain, ascc] = rows;
  expect(plain).toMatchObject({ group: { name: "standard" } });
  expect(plain!.measures.get("before attack")!.value).toBe(0.9);
  expect(plain!.measures.has("worst case")).toBe(false);
  expect(plain!.measures.get("pwws")).toMatchObject({ value: 0.3, difference: null, examples: 20 });
  const under = ascc!.measures.get("pwws")!;
  expect(under.value).toBeCloseTo(0.85);
  expect(under.interval!.low).toBeCloseTo(0.6396, 3);
  // Two tests stand in the table (before and under attack): Holm doubles the smaller chance.
  expect(under.difference).toMatchObject({ test: "McNemar", p: 2 * mcNemar(12, 1).exact });
  expect(under.difference!.value).toBeCloseTo(0.55);
  expect(ascc!.measures.get("before attack")!.difference).toMatchObject({ value: 0, p: 1 });
});

test("several seeds go together, and are compared by the bootstrap", async () => {
  const runs = [0, 1, 2].flatMap((seed) => [
    { seed, accuracy: 0.9 + seed / 100, attacks: { pwws: journal("ssssssssff") } },
    { seed, methods: ["rift"], attacks: { pwws: journal("ffffffffff") } },
  ]);
  const rows = await compareOne(runs);
  expect(rows.map(({ group }) => [group.name, group.runs.length])).toEqual([
    ["standard", 3],
    ["rift", 3],
  ]);
  expect(rows[0]!.measures.get("reported")).toMatchObject({ interval: null, spread: expect.closeTo(0.01, 6) });
  expect(rows[1]!.measures.get("pwws")!.difference).toMatchObject({ value: expect.closeTo(0.8, 6), test: "bootstrap" });
  expect(rows[1]!.measures.get("pwws")!.difference!.p).toBeLessThan(0.05);
});

test("worst case over attacks: right only where every attack failed", async () => {
  const rows = await compareOne([{ attacks: { genetic: journal("fsfk"), pwws: journal("ffsk") } }]);
  expect(rows[0]!.measures.get("worst case")).toMatchObject({ value: 0.25 });
});

test("other texts are not compared", async () => {
  const rows = await compareOne([
    { attacks: { pwws: journal("ssff") } },
    { methods: ["rose"], attacks: { pwws: journal("ffff", "other") } },
  ]);
  expect(rows[1]!.measures.get("pwws")).toMatchObject({ value: 1, difference: null });
});

test("runs of the same methods are told apart by what differs, and tasks stand apart", async () => {
  const tasks = await compare([{ methods: ["ascc:beta=4"] }, { methods: ["ascc:beta=10"] }, { task: "sst2" }]);
  expect(tasks.map(({ task }) => [task.task, task.groups.map(({ name }) => name), task.baseline.name])).toEqual([
    ["spam", ["ascc (ascc.beta 4)", "ascc (ascc.beta 10)"], "ascc (ascc.beta 4)"],
    ["sst2", ["standard"], "standard"],
  ]);
});

test("a run that is named twice counts once, and a seed that was run twice is no second seed", async () => {
  const [once, again] = [join(folder, "once"), join(folder, "again")];
  for (const place of [once, again]) await writeRun(place, { attacks: { pwws: journal("ssff") } });
  const namesOf = async (folders: string[]) =>
    groupRuns(await readReportRuns(folders)).flatMap(({ groups }) =>
      groups.map(({ name, runs }) => [name, runs.length]),
    );
  expect(await namesOf([once, `${once}/`, join(once, "..", "once", ".")])).toEqual([["standard", 1]]);
  expect(await namesOf([once, again])).toEqual([
    [`standard (${once})`, 1],
    [`standard (${again})`, 1],
  ]);
});
