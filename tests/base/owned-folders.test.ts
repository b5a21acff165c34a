import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { gate } from "../../src/actions/gate/gate.js";
import { prune } from "../../src/actions/prune.js";
import { createFolderAtomic, writeFileAtomic } from "../../src/base/files.js";
import { claimFolder, clearFolder } from "../../src/base/owned-folder.js";
import { report as writeReport } from "../../src/report/index.js";
import { RunWriter } from "../../src/runs/run-writer.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "victim"), { tokenization: "word" });
});

test("a gate never deletes the models that it compares, nor other files in its folder", async () => {
  const runs = join(folder, "runs");
  for (const name of ["baseline", "candidate"]) cpSync(victim.run, join(runs, name), { recursive: true });
  const data = { path: victim.data, textColumn: ["text"], labelColumn: "label" };
  const settings = { data, numExamples: 5, threads: 1 };
  const models = { model: join(runs, "candidate"), baseline: join(runs, "baseline") };
  await expect(gate({ ...settings, ...models, out: runs })).rejects.toThrow("is there");
  await expect(gate({ ...settings, model: victim.run, baseline: victim.run, out: runs })).rejects.toThrow(
    /baseline already exists, and no gate wrote it/,
  );
  for (const name of ["baseline", "candidate"]) expect(existsSync(join(runs, name, "results.json"))).toBe(true);
  const out = join(folder, "gate");
  mkdirSync(out);
  writeFileSync(join(out, "notes.txt"), "mine");
  const request = { ...settings, model: victim.run, baseline: victim.run, out };
  await gate(request);
  await gate(request);
  expect(readFileSync(join(out, "notes.txt"), "utf8")).toBe("mine");
  mkdirSync(join(out, "candidate", "model"));
  await expect(gate(request)).rejects.toThrow(/candidate.model is in the way, and no gate wrote it/);
});

test("only a real marker of the same kind makes a folder replaceable", async () => {
  const own = join(folder, "own");
  await claimFolder(own, "gate", ["result"]);
  writeFileSync(join(own, "result"), "");
  await claimFolder(own, "gate", ["result"]);
  await expect(claimFolder(own, "sweep", ["result"])).rejects.toThrow("no sweep wrote it");
  const linked = join(folder, "linked");
  mkdirSync(linked);
  writeFileSync(join(linked, "a.jsonl"), "");
  symlinkSync(join(own, ".temper.json"), join(linked, ".temper.json"));
  await expect(clearFolder(linked, "gate", () => true)).rejects.toThrow("is in the way");
  const link = join(folder, "link");
  symlinkSync(own, link);
  await expect(clearFolder(link, "gate", () => true)).rejects.toThrow("a file or a link");
  expect(existsSync(join(own, "result"))).toBe(true);
});

test("a file that appears in the folder of an export meanwhile survives", async () => {
  const out = join(folder, "exported");
  mkdirSync(out);
  const write = createFolderAtomic(out, async (temporary) => {
    writeFileSync(join(temporary, "model.onnx"), "");
    writeFileSync(join(out, "notes.txt"), "mine");
  });
  await expect(write).rejects.toThrow("something was written there meanwhile");
  expect(readdirSync(out)).toEqual(["notes.txt"]);
  expect(readdirSync(folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
});

test("two exports never share a temporary folder, and abandoned ones are removed", async () => {
  const parent = join(folder, "exports");
  const names: string[] = [];
  for (const name of ["a", "b"])
    await createFolderAtomic(join(parent, name), async (temporary) => {
      names.push(basename(temporary));
      writeFileSync(join(temporary, "file"), name);
    });
  expect(names[0]!.slice(2)).not.toBe(names[1]!.slice(2));
  const dead = join(parent, names[0]!.replace(`.${process.pid}-`, `.${2 ** 22 + 1}-`));
  // A container that ended has its own process IDs and host name.
  const elsewhere = join(parent, names[1]!.replace(/-[0-9a-f]{8}/, "-00000000"));
  for (const path of [dead, elsewhere]) mkdirSync(path);
  const weeksAgo = Date.now() / 1000 - 30 * 86_400;
  utimesSync(elsewhere, weeksAgo, weeksAgo);
  await writeFileAtomic(join(parent, "file"), "");
  expect(readdirSync(parent).sort()).toEqual(["a", "b", "file"]);
});

test("a report replaces reports only", async () => {
  const page = join(folder, "index.html");
  writeFileSync(page, "<title>mine</title>");
  await expect(writeReport({ runs: [victim.run], out: page })).rejects.toThrow("is not a report");
  expect(readFileSync(page, "utf8")).toBe("<title>mine</title>");
  const report = join(folder, "report.html");
  await writeReport({ runs: [victim.run], out: report });
  await writeReport({ runs: [victim.run], out: report });
});

test("a run that cannot start removes its own files only", () => {
  const out = join(folder, "new-run");
  const writer = new RunWriter(out, false);
  for (const name of ["config.yaml", "notes.txt"]) writeFileSync(join(out, name), "");
  writer.removeAll();
  writer.release();
  expect(readdirSync(out)).toEqual(["notes.txt"]);
});

test("prune does not follow a linked folder of checkpoints", async () => {
  const run = join(folder, "pruned");
  cpSync(victim.run, run, { recursive: true, filter: (path) => basename(path) !== "checkpoints" });
  const elsewhere = join(folder, "elsewhere", "step-00000001");
  mkdirSync(elsewhere, { recursive: true });
  writeFileSync(join(elsewhere, "optimizer.safetensors"), "");
  symlinkSync(join(folder, "elsewhere"), join(run, "checkpoints"));
  expect(await prune({ folders: [run], checkpoints: true })).toMatchObject([{ bytesRemoved: 0 }]);
  expect(existsSync(join(elsewhere, "optimizer.safetensors"))).toBe(true);
});
