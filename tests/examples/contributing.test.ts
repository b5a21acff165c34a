import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { readJournal } from "../../src/attacks/journal.js";
import { main } from "../cli/built.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

// A folder outside the repository, where the package is installed.
const folder = temporaryFolder();
const columns = ["--text-column", "text", "--label-column", "label", "--device", "cpu", "--threads", "1", "--quiet"];

/** The modules of CONTRIBUTING.md by name. The first line of each is its name. */
const modules = new Map(
  [...readFileSync("CONTRIBUTING.md", "utf8").matchAll(/^```js\n(\/\/ (\S+)\n[\s\S]*?)^```$/gm)].map(
    ([, text, name]) => [name!, text!],
  ),
);

function temper(...words: string[]): { status: number | null; stderr: string } {
  const env = { ...process.env, TEMPER_CACHE: join(folder, "cache") };
  return spawnSync(process.execPath, [resolve(main), ...words], { cwd: folder, encoding: "utf8", env });
}

beforeAll(async () => {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(resolve("."), join(folder, "node_modules/temper-nlp"));
  for (const [name, text] of modules) writeFileSync(join(folder, name), text);
  await writeTinyBert(join(folder, "tiny-bert"), ["excellent"]);
  writeReviews(join(folder, "reviews.tsv"));
  // Long words have many letters to swap, which a search could do forever.
  const long = Array.from({ length: 40 }, () => "excellent wonderful").join(" ");
  writeFileSync(join(folder, "long.tsv"), `text\tlabel\n${long}\tpositive\n${long} film\tnegative\n`);
});

test("the method and the attack of CONTRIBUTING.md run as printed, from outside the repository", async () => {
  expect([...modules.keys()]).toEqual(["label-smoothing.mjs", "typos.mjs"]);
  const training = ["--model", "tiny-bert", "--data", "reviews.tsv", "--epochs", "2", "--batch-size", "8"];
  const method = ["--method", "./label-smoothing.mjs:epsilon=0.2", "--max-length", "12", "--out", "run"];
  expect(temper("train", ...training, ...method, ...columns)).toMatchObject({ status: 0, stderr: "" });
  const out = ["--num-examples", "2", "--out", "attacks"];
  const ended = temper("attack", "run", "--attack", "./typos.mjs", "--data", "long.tsv", ...out, ...columns);
  expect(ended.status, ended.stderr).toBe(0);
  const results = [];
  for await (const { result } of readJournal(join(folder, "attacks/typos.jsonl"))) results.push(result);
  expect(results.length).toBe(2);
  for (const { edits } of results) expect(edits.length).toBeLessThanOrEqual(3);
});
