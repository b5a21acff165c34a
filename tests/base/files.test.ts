import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { readJson, readText, replaceFile, sha256File, writeFileAtomic } from "../../src/base/files.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

test("writes files atomically and leaves no temporary files", async () => {
  const inside = join(folder, "atomic");
  mkdirSync(inside);
  const path = join(inside, "file.txt");
  await writeFileAtomic(path, "first");
  await writeFileAtomic(path, new TextEncoder().encode("second"));
  expect(readFileSync(path, "utf8")).toBe("second");
  const interrupted = replaceFile(path, async (file) => {
    await file.write("half of the thi");
    throw new Error("stop");
  });
  await expect(interrupted).rejects.toThrow("stop");
  expect(readFileSync(path, "utf8")).toBe("second");
  await Promise.all(Array.from({ length: 20 }, (_, i) => writeFileAtomic(path, `writer ${i}`)));
  expect(readFileSync(path, "utf8")).toMatch(/^writer \d+$/);
  expect(readdirSync(inside)).toEqual(["file.txt"]);
});

test("explains why a file cannot be written or read", async () => {
  await expect(writeFileAtomic(join(folder, "none", "file"), "x")).rejects.toThrow(
    /cannot write .*none.file: there is no such file or folder/,
  );
  await expect(readText(folder, "the list")).rejects.toThrow(/cannot read the list .*: this is a folder/);
  await expect(sha256File(join(folder, "none"))).rejects.toBeInstanceOf(UserError);
});

test("computes the hash of a file", async () => {
  const bytes = Buffer.alloc(3_000_000, "temper");
  writeFileSync(join(folder, "bytes"), bytes);
  expect(await sha256File(join(folder, "bytes"))).toBe(createHash("sha256").update(bytes).digest("hex"));
});

test("reads JSON and locates syntax errors", async () => {
  const path = join(folder, "some.json");
  writeFileSync(path, '\ufeff{"a": [1, 2]}');
  expect(await readJson(path, "the settings")).toEqual({ a: [1, 2] });
  writeFileSync(path, '{\n  "a": [1, 2\n');
  await expect(readJson(path, "the settings")).rejects.toThrow(
    `${path}:3:1: expected "," or "]", found the end of the text (the settings`,
  );
  writeFileSync(path, Buffer.from([0x22, 0xff, 0x22]));
  await expect(readJson(path, "the settings")).rejects.toThrow(/not UTF-8/);
  await expect(readJson(join(folder, "missing.json"), "the settings")).rejects.toThrow(
    /cannot read the settings .*missing.json: there is no such/,
  );
});

test("JSON that is nested 20,000 levels deep is rejected", async () => {
  const path = join(folder, "deep.json");
  writeFileSync(path, `{"format":${"[".repeat(20_000)}${"]".repeat(20_000)}}`);
  await expect(readJson(path, "the results")).rejects.toThrow(/nested more than 256 levels deep \(the results/);
});

test("pipes and devices are not read as files", async () => {
  const pipe = join(folder, "pipe.json");
  execFileSync("mkfifo", [pipe]);
  for (const path of [pipe, "/dev/zero"]) {
    await expect(readJson(path, "the config")).rejects.toThrow(/expected the config in a regular file/);
    await expect(sha256File(path)).rejects.toThrow(UserError);
  }
});
