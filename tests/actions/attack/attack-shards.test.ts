import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { attackShards, attack as runAttackRequest } from "../../../src/actions/attack/attack.js";
import { createShardReader, type Shard } from "../../../src/actions/attack/attack-shards.js";
import { SearchPool } from "../../../src/attacks/pool.js";
import { getTimingPath, readTiming, runAttack } from "../../../src/attacks/run-attack.js";
import { createExample, createTableAttack, hashed, scriptedVictim } from "../../attacks/scripted.js";
import { tinyVictim } from "../../attacks/tiny-victim.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();

test("the cost of shards is the sum of theirs, in texts and in time", async () => {
  const examples = Array.from({ length: 4 }, (_, i) =>
    createExample(`id ${i}`, [["good", "great"], [`word${i}`]], i % 2),
  );
  const attack = await createTableAttack("pwws", examples);
  const createPool = () => new SearchPool(scriptedVictim(2, hashed(2)), { concurrency: 2 });
  const common = { seed: 0, settings: {} };
  const shards: Shard[] = [];
  for (const start of [0, 2]) {
    const path = join(folder, `${start}.jsonl`);
    const some = examples.slice(start, start + 2);
    await runAttack({ ...common, attack, pool: createPool(), examples: some, journalPath: path });
    const timing = JSON.parse(readFileSync(getTimingPath(path), "utf8"));
    writeFileSync(getTimingPath(path), JSON.stringify({ ...timing, seconds: 30 + start }));
    shards.push({ start, end: start + 2, path });
  }
  const journalPath = join(folder, "all.jsonl");
  const reader = createShardReader(attack, shards);
  await runAttack({ ...common, attack: reader, pool: createPool(), examples, journalPath });
  const [first, second, all] = await Promise.all([shards[0]!.path, shards[1]!.path, journalPath].map(readTiming));
  expect(all).toMatchObject({ seconds: 62, evaluations: first!.evaluations + second!.evaluations });
  expect(first!.evaluations).toBeGreaterThan(0);
});

test("one process continues the shards that several processes of a disappeared host have left", async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const { run: model, substitutions, data } = await tinyVictim(join(folder, "victim"));
  const common = { model, data, substitutions, attacks: ["greedy", "pwws"], device: "cpu", numExamples: 24 } as const;
  const [whole, out] = [join(folder, "whole"), join(folder, "left")];
  await runAttackRequest({ ...common, out: whole });
  await attackShards({ ...common, out });
  // Greedy lacks a shard, and the last line of another is cut.
  rmSync(join(out, "shards/greedy/00000.jsonl"));
  const cut = join(out, "shards/pwws/00001.jsonl");
  writeFileSync(cut, readFileSync(cut, "utf8").slice(0, -40));
  await runAttackRequest({ ...common, out, resume: true });
  for (const name of ["greedy.jsonl", "pwws.jsonl"])
    expect(readFileSync(join(out, name), "utf8")).toBe(readFileSync(join(whole, name), "utf8"));
});
