import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect, it } from "vitest";
import { replaceFile, writeFileAtomic } from "../../src/base/files.js";
import { RunWriter } from "../../src/runs/run-writer.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

it("temporary files of other programs and of running processes stay in --out", async () => {
  const path = join(folder, "status.json");
  let temporary = "";
  await replaceFile(path, async (file) => {
    temporary = readdirSync(folder).find((name) => name.endsWith(".tmp"))!;
    await file.writeFile("first");
  });
  const dead = temporary.replace(`.${process.pid}-`, `.${2 ** 22 + 1}-`); // above the largest process ID of Linux
  const elsewhere = dead.replace(/-[0-9a-f]{8}/, "-00000000");
  // An earlier process with the ID of this one: the first process of a container always has 1.
  const earlier = temporary.replace(/(-[0-9a-f]{8})[0-9a-f]{8}/, "$100000000");
  const others = [".vim.tmp", ".status.json.tmp", ".other.json.1-abcdef01.tmp", temporary, elsewhere];
  for (const name of [...others, dead, earlier]) writeFileSync(join(folder, name), "");
  new RunWriter(folder, true).release();
  await writeFileAtomic(path, "second");
  expect(readdirSync(folder).sort()).toEqual([...others, basename(path)].sort());
  expect(readFileSync(path, "utf8")).toBe("second");
  await rename(path, join(folder, "moved"));
  for (const name of [dead, earlier]) expect(existsSync(join(folder, name))).toBe(false);
});
