import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sweep } from "../../src/sweeps/index.js";
import { planSweep } from "../../src/sweeps/run-sweep.js";
import { formatWorkItem } from "../../src/sweeps/work-item.js";
import { temporaryFolder } from "../temporary.js";
import { readTable, writeTinySweep } from "./tiny-sweep.js";

const folder = temporaryFolder();

test("a sweep continues from results and journals alone, and trains only what unfinished attacks need", async () => {
  const evaluation = { attacks: { pwws: null, greedy: null }, numExamples: 8 };
  const file = await writeTinySweep(folder, { seeds: [0], evaluation });
  const [whole, copy] = [join(folder, "whole"), join(folder, "copy")];
  await sweep({ file, out: whole, estimate: false });
  cpSync(whole, copy, { recursive: true });
  const runs = readdirSync(join(copy, "runs")).map((name) => join(copy, "runs", name));
  for (const run of runs)
    for (const part of ["model", "checkpoints"]) rmSync(join(run, part), { recursive: true, force: true });
  const unfinished = runs[0]!;
  for (const name of ["requests/attack.result.json", "attacks/report.json", "attacks/greedy.timing.json"])
    rmSync(join(unfinished, name));
  const journal = join(unfinished, "attacks/greedy.jsonl");
  const complete = readFileSync(journal, "utf8");
  writeFileSync(journal, `${complete.split("\n").slice(0, 3).join("\n")}\n`);

  const request = { file, out: copy, estimate: false, resume: true };
  expect((await planSweep(request)).unfinished).toEqual([unfinished.slice(join(copy, "runs/").length)]);
  const started: string[] = [];
  const warnings: string[] = [];
  await sweep(request, {
    onEvent(event) {
      if (event.type === "item-start") started.push(formatWorkItem(event.item));
      if (event.type === "warning") warnings.push(event.message);
    },
  });
  expect(started).toEqual([
    unfinished.slice(join(copy, "runs/").length),
    expect.stringMatching(/^attack of \w+, all, seed 0$/),
  ]);
  expect(warnings).toEqual([expect.stringContaining("these runs are trained again")]);
  expect(readTable(copy)).toEqual(readTable(whole));
  expect(readFileSync(journal, "utf8")).toBe(complete);
});
