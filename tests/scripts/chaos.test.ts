import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { commands } from "../../src/cli/command-list.js";
import { chooseExtent } from "../extent.js";
import { isLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const url = pathToFileURL("tools/chaos/workloads.mjs").href;
const { createWorkloads } = (await import(url)) as {
  createWorkloads(folder: string): { name: string; getCommand(out: string, program: string[]): string[] }[];
};
const inputs = join(folder, "inputs");
mkdirSync(inputs);
writeFileSync(join(inputs, "endpoint.txt"), "http://127.0.0.1:9/");
const workloads = createWorkloads(inputs);

// In `make test`, a training, one command with a journal, and one that creates a folder. Other moments
// in every run of the suite. The seed, which is printed, repeats them.
test.each(isLong ? workloads.map(({ name }) => name) : ["train,attack,export"])(
  "%s: kills, signals and failing files at random moments change no result that is resumed",
  (names) => {
    const extent = { CHAOS_WORKLOADS: names, CHAOS_KILLS: String(chooseExtent(4, 15)), CHAOS_WORKERS: "2" };
    const env = { ...process.env, ...extent, TMPDIR: folder };
    const { status, stdout, stderr } = spawnSync(process.execPath, ["tools/chaos/chaos.mjs"], {
      env,
      encoding: "utf8",
    });
    expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(/faults hit in \d+ rounds; each round was resumed and compared/);
  },
);

test("make chaos covers every command that works for more than a moment", () => {
  const covered = workloads.map(({ name, getCommand }) => {
    const [program, command] = getCommand(mkdtempSync(join(folder, `${name}-`)), ["temper"]);
    return program === "temper" ? command! : name;
  });
  for (const name of covered) expect(Object.keys(commands)).toContain(name);
  expect([...new Set(covered)].sort()).toEqual([
    ...["analyze", "attack", "audit", "calibrate", "certify", "compare", "evaluate", "exact", "export"],
    ...["gate", "harden", "predict", "report", "runs", "studio", "substitutions", "sweep", "train", "try"],
    "verify",
  ]);
});
