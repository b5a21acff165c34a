import { join } from "node:path";
import { expect, test } from "vitest";
import { createSweepPlan, writeSweepPlan } from "../../src/sweeps/plan.js";
import { readSweep } from "../../src/sweeps/read-sweep.js";
import { temporaryFolder } from "../temporary.js";
import { startTemper, writeTinySweep } from "./tiny-sweep.js";

test("workers of a phase, as in a job array, share its items: each run is trained once", async () => {
  const out = join(temporaryFolder(), "sweep");
  const file = await writeTinySweep(out, { rows: { standard: null }, seeds: [0, 1, 2], train: { epochs: 1 } });
  const written = await createSweepPlan(await readSweep({ file }));
  await writeSweepPlan(out, written);
  const args = ["worker", "--sweep", out, "--phase", "0"];
  const ended = await Promise.all([startTemper(args).ended, startTemper(args).ended]);
  expect(ended.map(({ status }) => status)).toEqual([0, 0]);
  const lines = ended.flatMap(({ stderr }) => stderr.split("\n").filter((line) => line.endsWith(": done")));
  expect(lines.sort()).toEqual(written.plan.runs.map((run) => `${run}: done`).sort());
});
