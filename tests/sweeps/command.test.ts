import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { sweep } from "../../src/sweeps/index.js";
import type { SweepResult } from "../../src/sweeps/run-sweep.js";
import { formatWorkItem } from "../../src/sweeps/work-item.js";
import { main } from "../cli/built.js";
import { getError, invoke } from "../cli/invoke.js";
import { chooseExtent } from "../extent.js";
import { testLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";
import { readTable, startTemper, writeTinySweep } from "./tiny-sweep.js";

const folder = temporaryFolder();
/** Of two rows. */
const runs = chooseExtent(2, 4);
let file: string;
let whole: SweepResult;
const started: string[] = [];

beforeAll(async () => {
  file = await writeTinySweep(folder, { seeds: [0, 1].slice(0, chooseExtent(1, 2)) });
  whole = await sweep(
    { file, out: join(folder, "whole"), jobs: 2, estimate: false },
    { onEvent: (event) => event.type === "item-start" && started.push(formatWorkItem(event.item)) },
  );
});

testLong("two concurrent sweeps with one cache give the same table as one sweep", async () => {
  const cache = { TEMPER_CACHE: join(folder, "cache") };
  const changes = {
    rows: { rift: { methods: ["rift"] } },
    seeds: [0],
    evaluation: { attacks: { greedy: null }, numExamples: 10 },
  };
  const sweep = await writeTinySweep(join(folder, "sharing"), { ...changes, baseline: null });
  const start = (name: string) =>
    startTemper(["sweep", sweep, "--out", join(folder, name), "--no-estimate", "--quiet"], cache);
  const both = [start("one"), start("two")];
  for (const { ended } of both) expect(await ended).toMatchObject({ status: 0, stderr: "" });
  // A later sweep finds complete cache entries.
  const again = start("alone");
  expect(await again.ended).toMatchObject({ status: 0, stderr: "" });
  const alone = readTable(join(folder, "alone"));
  expect([readTable(join(folder, "one")), readTable(join(folder, "two"))]).toEqual([alone, alone]);
  const kinds = readdirSync(join(folder, "cache"));
  expect(kinds).toContain("teacher");
  expect(
    kinds.flatMap((kind) => readdirSync(join(folder, "cache", kind))).filter((name) => /\.(lock|tmp)/.test(name)),
  ).toEqual([]);
});

testLong("estimates the cost in a worker process without writing anything", async () => {
  const out = join(folder, "estimated");
  const { code, stdout } = await invoke(["sweep", file, "--out", out, "--dry-run", "--json", "--quiet"]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ unfinished: runs, estimate: { device: "cpu" } });
  const { seconds, low, high } = (JSON.parse(stdout) as { estimate: Record<"seconds" | "low" | "high", number> })
    .estimate;
  expect(low).toBeGreaterThan(0);
  expect([low, seconds, high]).toEqual([low, seconds, high].sort((a, b) => a - b));
  expect(existsSync(out)).toBe(false);
});

it.each(["SIGINT", "SIGTERM"] as const)("an estimate ends at %s and leaves nothing", async (signal) => {
  const temporary = join(folder, signal);
  mkdirSync(temporary);
  const out = join(folder, "stopped");
  const args = ["sweep", file, "--out", out, ...(signal === "SIGINT" ? ["--dry-run"] : [])];
  const child = spawn(process.execPath, [main, ...args], { env: { ...process.env, TMPDIR: temporary } });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
    if (!child.killed && stderr.includes("1 of")) child.kill(signal);
  });
  const [status] = await once(child, "close");
  expect(status).toBe(130);
  expect(stderr).toMatch(/Stopped during the estimate\. No run was started\.\nContinue with: temper sweep /);
  expect(readdirSync(temporary)).toEqual([]);
  expect(existsSync(out)).toBe(false);
});

testLong("the error of a worker that estimates is one line", async () => {
  const out = join(folder, "wrong");
  const args = ["sweep", file, "--out", out, "--dry-run", "--quiet", "--set", "labelColumn=nothing"];
  expect(await getError(args)).toMatch(/^temper: .*nothing/);
});

it("runSweep returns the table as data", async () => {
  const out = join(folder, "whole");
  const { status, failures, table, report } = whole;
  expect({ status, failures, report }).toEqual({ status: "done", failures: [], report: join(out, "report.html") });
  expect(started).toHaveLength(runs);
  expect(table).toEqual(readTable(out));
  await expect(sweep({ file, out, estimate: false })).rejects.toThrow(/already contains a sweep/);
});

it("rejects a second sweep in the same folder without --resume", async () => {
  const out = join(folder, "whole");
  expect(await getError(["sweep", file, "--out", out])).toMatch(/already contains a sweep\. Pass --resume/);
  writeFileSync(join(out, "sweep.lock"), readFileSync("/proc/self/stat", "utf8"));
  expect(await invoke(["sweep", file, "--out", out, "--resume", "--no-estimate", "--quiet"])).toMatchObject({
    code: 0,
  });
});

it("temper table prints the table of a sweep folder", async () => {
  const out = join(folder, "whole");
  expect(await invoke(["table", out])).toMatchObject({ code: 0, stdout: readFileSync(join(out, "table.md"), "utf8") });
  expect(await getError(["table", out, "--paper"])).toMatch(/has no published table/);
  expect(await getError(["table", join(folder, "nowhere")])).toMatch(/nowhere/);
});
