import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { exportModel } from "../src/actions/export.js";
import { formatModelCard } from "../src/actions/model-card.js";
import { loadClassifier } from "../src/actions/predict/text-classifier.js";
import { push } from "../src/actions/push.js";
import { readTiming } from "../src/attacks/run-attack.js";
import { readLineEntries } from "../src/base/checked-lines.js";
import { openForAppending, openRegularFile, readText } from "../src/base/files.js";
import { findLivingOwner } from "../src/base/lock.js";
import { loadModel } from "../src/models/checkpoint/load.js";
import { openSafetensors } from "../src/models/checkpoint/safetensors.js";
import { saveTokenizer } from "../src/models/checkpoint/save-tokenizer.js";
import { createReport } from "../src/report/index.js";
import { RunFolder } from "../src/runs/run-folder.js";
import { loadTokenizer } from "../src/text/tokenizer.js";
import { type TinyVictim, tinyVictim } from "./attacks/tiny-victim.js";
import { getError, invoke } from "./cli/invoke.js";
import { temporaryFolder } from "./temporary.js";

const folder = temporaryFolder();
const secret = join(folder, "secret.txt");
let victim: TinyVictim;

beforeAll(async () => {
  writeFileSync(secret, "PRIVATE KEY");
  victim = await tinyVictim(join(folder, "victim"));
});

/** A copy of the run, as if it had been downloaded. */
function copyRun(name: string): string {
  const run = join(folder, name);
  cpSync(victim.run, run, { recursive: true });
  mkdirSync(join(run, "analysis"), { recursive: true });
  return run;
}

test("a report never contains a file outside of the run", async () => {
  for (const [name, link] of [
    ["link-file", (run: string) => symlinkSync(secret, join(run, "analysis", "landscape.svg"))],
    ["link-data", (run: string) => symlinkSync(secret, join(run, "analysis", "landscape.json"))],
    ["link-lines", (run: string) => symlinkSync(secret, join(run, "attacks"))],
  ] as const) {
    const run = copyRun(name);
    if (name !== "link-file") writeFileSync(join(run, "analysis", "landscape.svg"), "<svg></svg>");
    link(run);
    const html = await createReport([run]).then(
      (report) => report.html,
      (error: Error) => error.message,
    );
    expect(html).not.toContain(Buffer.from("PRIVATE KEY").toString("base64"));
    expect(html).not.toContain("PRIVATE KEY");
  }
  const run = copyRun("link-inside");
  writeFileSync(join(run, "figure.svg"), "<svg></svg>");
  symlinkSync(join("..", "figure.svg"), join(run, "analysis", "inside.svg"));
  expect((await createReport([run])).figures).toBe(1);
});

test("no part of a run that is shown or uploaded is a link out of it", async () => {
  mkdirSync(join(folder, "private"));
  writeFileSync(join(folder, "private", "pwws.jsonl"), "PRIVATE KEY");
  for (const name of [
    "analysis",
    "attacks",
    "certificates",
    "exact",
    "model",
    "config.yaml",
    "results.json",
    "calibration.json",
  ]) {
    const run = copyRun(`link-${name}`);
    rmSync(join(run, name), { recursive: true, force: true });
    symlinkSync(name.includes(".") ? secret : join(folder, "private"), join(run, name));
    await expect(RunFolder.open(run)).rejects.toThrow(`${name} is a link out of its folder`);
  }
  // Checkpoints are often on another disk.
  const run = copyRun("link-checkpoints");
  rmSync(join(run, "checkpoints"), { recursive: true, force: true });
  symlinkSync(join(folder, "private"), join(run, "checkpoints"));
  await RunFolder.open(run);
});

test("a journal is never read or written through a link, and its timing is no pipe", async () => {
  const run = copyRun("link-journal");
  const attacks = join(run, "attacks");
  mkdirSync(attacks, { recursive: true });
  const data = ["--data", victim.data, "--text-column", "text", "--label-column", "label", "--num-examples", "2"];
  const attack = ["attack", run, ...data, "--attack", "greedy", "--threads", "1", "--resume"];
  symlinkSync(secret, join(attacks, "greedy.jsonl"));
  const read = async (): Promise<void> => {
    for await (const _ of readLineEntries(join(attacks, "greedy.jsonl"))) break;
  };
  await expect(read()).rejects.toThrow("is a link out of its folder");
  expect(await getError(attack)).toContain("is a link out of its folder");
  // The target need not exist yet, or may be empty.
  for (const isEmpty of [false, true]) {
    const target = join(folder, `.profile-${isEmpty}`);
    if (isEmpty) writeFileSync(target, "");
    rmSync(join(attacks, "greedy.jsonl"));
    symlinkSync(target, join(attacks, "greedy.jsonl"));
    expect(await getError(attack)).toContain("symbolic link");
    expect(isEmpty ? readFileSync(target, "utf8") : existsSync(target)).toBe(isEmpty ? "" : false);
  }
  const log = join(folder, "log");
  symlinkSync(join(folder, "new"), log);
  expect(() => openForAppending(log)).toThrow("ELOOP");
  execFileSync("mkfifo", [join(attacks, "greedy.timing.json")]);
  expect((await readTiming(join(attacks, "greedy.jsonl"))).seconds).toBe(0);
});

test("an ONNX model reads no file outside of its folder", async () => {
  const exported = join(folder, "exported");
  await exportModel({
    model: victim.run,
    out: exported,
    threads: 1,
    data: victim.data,
    textColumn: ["text"],
    labelColumn: "label",
  });
  for (const [name, create] of [
    ["link", (path: string) => symlinkSync(secret, path)],
    ["pipe", (path: string) => execFileSync("mkfifo", [path])],
  ] as const) {
    const model = join(folder, `exported-${name}`);
    for (const file of ["onnx/model.onnx", "onnx/model.onnx_data"]) {
      cpSync(exported, model, { recursive: true });
      rmSync(join(model, file), { force: true });
      create(join(model, file));
      await expect(loadClassifier(model, { threads: 1 })).rejects.toThrow(/is a link out|found a pipe/);
      rmSync(model, { recursive: true });
    }
  }
});

/** Who reads files by other means than src/base/files.ts, and why that is safe. */
const otherReaders: Record<string, string> = {
  "src/actions/doctor.ts": "the package and /proc",
  "src/base/cache.ts": "the cache of this user",
  "src/cli/main.ts": "the package",
  "src/hub/download.ts": "writes the cache, without links",
  "src/hub/hub-cache.ts": "the cache of this user",
  "src/base/lock.ts": "refuses pipes, and shows only process IDs",
  "src/base/processes.ts": "/proc",
  "src/base/result-cache.ts": "the cache of this user",
  "src/models/inference/score-cache.ts": "the cache of this user",
  "src/runs/environment.ts": "the package",
  "src/sweeps/estimate.ts": "the log of its own process, in a temporary folder",
  "src/tasks/hub-repository.ts": "the cache of this user",
  "src/tasks/spam.ts": "a package",
  "src/tensor/kernels.ts": "the package and the cache of this user",
  "src/tensor/precision-verdict.ts": "the addon",
  "src/text/lm-scores.ts": "a file that the person names, perhaps a pipe",
  "src/text/read-inputs.ts": "a file that the person names, perhaps a pipe",
  "src/text/wordnet-files.ts": "a package",
};

test("only src/base/files.ts reads files of folders from elsewhere", () => {
  const found = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.startsWith(join("studio", "page")))
    .map((name) => `src/${name}`)
    .filter((path) => {
      const imports = readFileSync(path, "utf8").match(/import \{[^}]*\} from "node:fs(\/promises)?"/g) ?? [];
      return imports.some((line) => /\b(readFile|readFileSync|createReadStream|open|openSync)\b/.test(line));
    });
  expect(found.sort()).toEqual([...Object.keys(otherReaders), "src/base/files.ts"].sort());
  for (const path of found) expect(readFileSync(path, "utf8")).not.toMatch(/import \* as \w+ from "node:fs/);
});

test("the files of a tokenizer are not copied through links", async () => {
  const model = join(folder, "linked-model");
  cpSync(join(victim.run, "model"), model, { recursive: true });
  const tokenizer = await loadTokenizer(model);
  symlinkSync(secret, join(model, "merges.txt"));
  const target = join(folder, "saved");
  mkdirSync(target);
  await expect(
    saveTokenizer(target, { folder: model, tokenizer, usesTokenTypes: true, tokenization: "subword", maxLength: 12 }),
  ).rejects.toThrow("merges.txt is a link out of its folder");
  symlinkSync(secret, join(model, "linked.safetensors"));
  await expect(openSafetensors(join(model, "linked.safetensors"))).rejects.toThrow("is a link out of its folder");
});

test("links of the hub cache lead to its blobs and nowhere else", async () => {
  const storage = join(folder, "models--a--b");
  const snapshot = join(storage, "snapshots", "0123456789012345678901234567890123456789");
  mkdirSync(snapshot, { recursive: true });
  mkdirSync(join(storage, "blobs"));
  writeFileSync(join(storage, "blobs", "hash"), "{}");
  symlinkSync(join("..", "..", "blobs", "hash"), join(snapshot, "config.json"));
  symlinkSync(secret, join(snapshot, "vocab.txt"));
  expect(await readText(join(snapshot, "config.json"), "the config", { kind: "settings" })).toBe("{}");
  await expect(readText(join(snapshot, "vocab.txt"), "the words", { kind: "tokenizer" })).rejects.toThrow("is a link");
});

test("pipes, devices and locks that are pipes are rejected at once", async () => {
  const run = copyRun("pipes");
  const pipes = [join(run, "analysis", "f.svg"), join(run, "run.lock"), join(run, "status.json")];
  execFileSync("mkfifo", pipes.slice(0, 2));
  await expect((await RunFolder.open(run)).figures()).rejects.toThrow("found a pipe or a device");
  expect(findLivingOwner(pipes[1]!)).toBeNull();
  await expect(openRegularFile("/dev/zero", "the figure")).rejects.toThrow("found a pipe or a device");
  await expect(openRegularFile(run, "the figure")).rejects.toThrow("this is a folder");
});

test("a file that is too large for its kind is rejected before it is read", async () => {
  const path = join(folder, "large.svg");
  writeFileSync(path, "");
  truncateSync(path, 33 << 20);
  await expect(readText(path, "the figure", { kind: "figure" })).rejects.toThrow(/has \d+ bytes, more than \d+/);
  expect(readFileSync(path).length).toBe(33 << 20);
});

test("changed weights of a finished run are noticed by every reader", async () => {
  const run = copyRun("flipped");
  const path = join(run, "model", "model.safetensors");
  const bytes = readFileSync(path);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(path, bytes);
  await expect(loadModel(run)).rejects.toThrow("does not match the hash in config.json");
  await expect(push({ run, repository: "me/model", dryRun: true })).rejects.toThrow("does not match the hash");
});

test("the model card of a run contains no path of this host", async () => {
  const run = await RunFolder.open(victim.run);
  const card = await formatModelCard(run, (await run.results())!);
  expect(run.config.model).toContain(folder.slice(0, 4));
  expect(card).not.toMatch(/(^|[\s"'`(=])(\/|~\/)\w/m);
  expect(card).toContain("--data reviews.tsv");
});

test("control characters of a config do not reach the terminal", async () => {
  const run = copyRun("escapes");
  const config = join(run, "config.yaml");
  const tags = ["\u001b]0;title\u0007", "\u001b[8mhidden"];
  writeFileSync(config, stringify({ ...parse(readFileSync(config, "utf8")), tags }));
  for (const command of [
    ["runs", run],
    ["runs", run, "--json"],
  ]) {
    const { stdout, stderr, code } = await invoke(command);
    expect(code).toBe(0);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(stdout + stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  }
});
