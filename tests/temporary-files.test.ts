import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { RunWriter } from "../src/runs/run.js";
import { temporaryFolder } from "./temporary.js";

it("temporary files of other programs and of running processes stay in --out", () => {
  const folder = temporaryFolder();
  const dead = 2 ** 22 + 1; // above the largest process ID of Linux
  const others = [
    ".vim.tmp",
    ".backup.config.yaml.tmp",
    ".x.1-abcdef01.tmp",
    `.config.yaml.${process.pid}-abcdef01.tmp`,
  ];
  const ours = [`.config.yaml.${dead}-abcdef01.tmp`, `.results.json.${dead}-01234567.tmp`];
  for (const name of [...others, ...ours]) writeFileSync(join(folder, name), "");
  new RunWriter(folder, false).release();
  expect(readdirSync(folder).sort()).toEqual(others.sort());
});
