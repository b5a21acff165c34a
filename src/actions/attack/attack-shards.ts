import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ReadyAttack } from "../../attacks/define-attack.js";
import { readJournal } from "../../attacks/journal.js";
import type { BatchSearch } from "../../attacks/protocol.js";
import { addCounters } from "../../attacks/query-counters.js";
import type { AttackResult } from "../../attacks/result.js";
import { readTiming } from "../../attacks/run-attack.js";
import { UserError } from "../../base/errors.js";
import { getShardFolder } from "../../runs/attack-folder.js";

export interface Shard {
  readonly start: number;
  readonly end: number;
  readonly path: string;
}

/** Shards are small enough that processes end together, and large enough to fill batches. */
const [minShardSize, maxShardSize, shardCount] = [8, 256, 64];

/** Divides the examples of an attack by their number only, so that a resumed attack agrees. */
export function listShards(out: string, attack: string, numExamples: number): Shard[] {
  const size = Math.min(maxShardSize, Math.max(minShardSize, Math.ceil(numExamples / shardCount)));
  return Array.from({ length: Math.ceil(numExamples / size) }, (_, i) => ({
    start: i * size,
    end: Math.min(numExamples, (i + 1) * size),
    path: join(getShardFolder(out, attack), `${String(i).padStart(5, "0")}.jsonl`),
  }));
}

/** Counts the results of a journal; 0 if it does not exist. A damaged last line does not count. */
export async function countResults(path: string): Promise<number> {
  if (!existsSync(path)) return 0;
  let count = 0;
  try {
    for await (const _ of readJournal(path)) count++;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
  return count;
}

export async function isShardDone({ start, end, path }: Shard): Promise<boolean> {
  return (await countResults(path)) === end - start;
}

/**
 * An attack that returns the results of the shards instead of searching, so that their results
 * enter one journal in the order of the examples. Its cost is the sum of theirs.
 */
export function createShardReader(attack: ReadyAttack, shards: readonly Shard[]): ReadyAttack {
  let seconds = 0;
  const search: BatchSearch = {
    name: "the results of other processes",
    cost: attack.recipe.search.cost,
    async *runAll(_recipe, _examples, { skip = 0 }, counters): AsyncGenerator<AttackResult> {
      for (const { path } of shards) {
        const timing = await readTiming(path);
        addCounters(counters, timing);
        seconds += timing.seconds;
      }
      for (const { path, start } of shards) {
        let position = start;
        for await (const { result } of readJournal(path)) if (position++ >= skip) yield result;
      }
    },
  };
  return {
    ...attack,
    recipe: { ...attack.recipe, search },
    get seconds() {
      return seconds;
    },
  };
}

export async function removeShards(out: string, attack: string): Promise<void> {
  await rm(getShardFolder(out, attack), { recursive: true, force: true });
}
