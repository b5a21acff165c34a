import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { formatModelCard } from "../src/actions/model-card/model-card.js";
import { pushModel } from "../src/actions/push/push.js";
import { openRegularFile, readText } from "../src/files.js";
import { findLivingOwner } from "../src/lock.js";
import { loadModel } from "../src/models/checkpoint/load.js";
import { openSafetensors } from "../src/models/checkpoint/safetensors.js";
import { saveTokenizer } from "../src/models/checkpoint/save-tokenizer.js";
import { createReport } from "../src/report/index.js";
import { RunFolder } from "../src/runs/run-folder.js";
import { loadTokenizer } from "../src/text/tokenizer.js";
import { type TinyVictim, tinyVictim } from "./attacks/tiny-victim.js";
import { invoke } from "./cli/invoke.js";
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

test("a folder of figures that is a link out of the run is rejected", async () => {
  const run = join(folder, "link-folder");
  cpSync(victim.run, run, { recursive: true });
  mkdirSync(join(folder, "pictures"));
  writeFileSync(join(folder, "pictures", "private.svg"), "<svg></svg>");
  symlinkSync(join(folder, "pictures"), join(run, "analysis"));
  await expect((await RunFolder.open(run)).figures()).rejects.toThrow("is a link out of its folder");
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
  await expect(pushModel({ run, repository: "me/model", dryRun: true })).rejects.toThrow("does not match the hash");
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
    ["table", run],
    ["runs", run, "--json"],
  ]) {
    const { stdout, stderr, code } = await invoke(command);
    expect(code).toBe(0);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(stdout + stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  }
});
