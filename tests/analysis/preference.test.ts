import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { analyze } from "../../src/analysis/index.js";
import { createSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { listWorkPhases } from "../../src/sweeps/work-item.js";
import { writeRun } from "../report/run-folder.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const [lexical, length] = ["control_raising_lexical_content_the", "control_raising_length"];

async function writeProbeRun(name: string, methods: unknown[], seed: number, probe: string, score: number) {
  const run = await writeRun(join(folder, "runs", name), { methods, seed, task: `msgs:${probe}` });
  const path = join(run, "results.json");
  const results = JSON.parse(readFileSync(path, "utf8"));
  results.test.metrics.matthews = score;
  writeFileSync(path, JSON.stringify(results));
}

test("shows the score of each finished run by method, and one panel per probe", async () => {
  const rose = [{ rose: { variant: "first" } }];
  await writeProbeRun("a", [], 0, lexical, -0.5);
  await writeProbeRun("b", [], 1, lexical, -0.3);
  await writeProbeRun("c", rose, 0, lexical, 0.75);
  await writeProbeRun("d", [], 0, length, 0.05);
  const runs = [join(folder, "runs")];
  const { data, summary, files } = await analyze({ analysis: "preference", runs, out: folder });
  expect(data.runs).toEqual([
    { probe: lexical, method: "standard", seed: 0, score: -0.5 },
    { probe: lexical, method: "standard", seed: 1, score: -0.3 },
    { probe: lexical, method: "rose", seed: 0, score: 0.75 },
    { probe: length, method: "standard", seed: 0, score: 0.05 },
  ]);
  // Two seeds give an interval, one seed gives none.
  expect(summary).toContain("standard -0.4 (-1 to 0.87), rose 0.75;");
  expect(summary).toMatch(/^Mean Matthews correlation over 2 seeds, with 95% CIs/);
  expect(summary).toMatch(/against length: standard 0\.05\.$/);
  expect(readFileSync(files.svg, "utf8")).toContain("Which feature is learned");
});

test("rejects runs on other tasks", async () => {
  const run = await writeRun(join(folder, "spam"), {});
  await expect(analyze({ analysis: "preference", runs: [run], out: folder })).rejects.toThrow(
    /expected a run on a msgs:… task, found spam/,
  );
});

test("ends the sweep of ROSE's figure 3, once per column", async () => {
  const { plan } = await createSweepPlan(await readSweep({ file: "experiments/rose-fig-3.yaml" }));
  expect(listWorkPhases(plan).at(-1)?.items).toEqual(
    ["lexical", "length"].map((column) => ({ kind: "analyze", index: 0, column })),
  );
});
