#!/usr/bin/env node
// Freezes results of TextAttack 0.3.11 on a victim of word weights: tests/fixtures/textattack/RECIPE.jsonl.
//   TEXTATTACK=ENVIRONMENT node tools/parity/freeze-textattack.mjs
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const folder = resolve("tests/fixtures/textattack");
const { bias, weights, table, examples } = JSON.parse(readFileSync(join(folder, "victim.json"), "utf8"));
/** Recipes without random choices. The sentences are too short for the sentence encoder of TextFooler. */
const recipes = ["pwws", "textfooler"];
const work = mkdtempSync(join(tmpdir(), "temper-freeze-"));
writeFileSync(join(work, "table.json"), JSON.stringify(table));
const request = {
  ...{ bias, weights, examples, texts: [], threads: 1, maxLength: 128, encoder: resolve("tests/fixtures/bert-tiny") },
  resources: [process.execPath, resolve("tools/parity/resources.mjs"), join(work, "table.json")],
  recipes: recipes.map((recipe) => ({ recipe, options: {}, seeds: [0] })),
};
writeFileSync(join(work, "request.json"), JSON.stringify(request));
const python = join(process.env.TEXTATTACK ?? "build/textattack", "bin/python");
const peer = spawnSync(python, ["tools/parity/textattack_peer.py", join(work, "request.json")], { encoding: "utf8" });
rmSync(work, { recursive: true });
if (peer.status !== 0) {
  console.error(peer.stderr);
  process.exit(1);
}
const lines = peer.stdout
  .split("\n")
  .filter((line) => line.includes('"outcome"'))
  .map((line) => JSON.parse(line));
for (const recipe of recipes) {
  const own = lines.filter((line) => line.recipe === recipe);
  const rows = own.map(({ id, outcome, queries, text }) => JSON.stringify({ id, outcome, queries, text }));
  writeFileSync(join(folder, `${recipe}.jsonl`), `${rows.join("\n")}\n`);
  console.log(`${recipe}: ${own.length} texts`);
}
