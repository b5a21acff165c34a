#!/usr/bin/env node
// How the portfolio of `auto` shares its queries: the gap of each setting to the exact result, on validation texts. Short
// texts are fooled by every setting or by none, so only texts with at least --min-words words are attacked.
//   node tools/tune-auto.mjs RUN [--task sst2] [--min-words 12] [--max-changes 3] [--num-examples 300] [--out FOLDER]
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { exact } from "../dist/actions/exact/exact.js";
import { defineAttack } from "../dist/attacks/define-attack.js";
import { readJournal } from "../dist/attacks/journal.js";
import { auto } from "../dist/attacks/recipes/auto.js";
import { portfolioSearch } from "../dist/attacks/searches/portfolio.js";
import { loadTask } from "../dist/index.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    task: { type: "string", default: "sst2" },
    "min-words": { type: "string", default: "12" },
    "max-changes": { type: "string", default: "3" },
    "num-examples": { type: "string", default: "300" },
    device: { type: "string", default: "auto" },
    out: { type: "string", default: mkdtempSync(join(tmpdir(), "temper-tune-")) },
  },
});
const shares = [
  { beamPart: 0.3, restartPart: 0.6 },
  { beamPart: 0, restartPart: 0.5 },
  { beamPart: 0, restartPart: 1 },
  { beamPart: 0, restartPart: 0 },
  { beamPart: 0.5, restartPart: 1 },
  { beamPart: 0.5, restartPart: 0 },
];
const settings = [100, 200, 300, 1000, 10_000].flatMap((maxQueries) =>
  shares.map((share) => ({ maxQueries, ...share })),
);
const getName = ({ maxQueries, beamPart, restartPart }) => `auto-${maxQueries}-${beamPart}-${restartPart}`;
const attacks = settings.map((setting) =>
  defineAttack({
    ...auto,
    name: getName(setting),
    build: (options, resources) => ({
      ...auto.build(options, resources),
      search: portfolioSearch(resources.gradient ?? null, setting),
    }),
  })(),
);
const task = await loadTask({ task: values.task });
const examples = (await task.load("validation"))
  .filter(({ texts }) => texts[0].split(" ").length >= Number(values["min-words"]))
  .slice(0, Number(values["num-examples"]));
const { proof, texts, ...report } = await exact(
  {
    model: positionals[0],
    maxChanges: Number(values["max-changes"]),
    runtime: { device: values.device },
    out: values.out,
    attacks,
  },
  {},
  { task, examples },
);
console.log(
  `${texts.length} texts, exact: ${report.exact.map(({ accuracy }) => (100 * accuracy).toFixed(1)).join(", ")}%`,
);
for (const setting of settings) {
  const name = getName(setting);
  let [queries, count] = [0, 0];
  for await (const { result } of readJournal(proof.replace(/\.jsonl$/, `-${name}.jsonl`)))
    [queries, count] = [queries + result.queries, count + 1];
  const missed = Math.round(report.attacks[name].gap * texts.length);
  console.log(JSON.stringify({ ...setting, missed, queries: Math.round(queries / count) }));
}
process.exit(0);
