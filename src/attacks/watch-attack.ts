import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { Rng } from "../tensor/random.js";
import { type AttackExample, applyReplacements, createInputBuilder } from "./attack-space.js";
import type { AttackResult, Edit } from "./result.js";
import { computeContentKey } from "./score-cache.js";
import { type Attack, type Candidate, margin, runSearch, type Score } from "./search.js";
import type { PreparedInput, Victim } from "./victim.js";

/** What an attack has done so far. */
export interface WatchedStep {
  /** Texts that were scored so far. */
  readonly queries: number;
  /** The changes of the best text so far, and its probabilities. */
  readonly edits: readonly Edit[];
  readonly probabilities: readonly number[];
  /** Positions of the words that the last texts hid or changed. */
  readonly tried: readonly number[];
}

export interface WatchAttackOptions {
  readonly seed?: number;
  readonly budget?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Texts between two reports. Fewer would be slower, more would hide what the attack does. */
const reportedTexts = 16;

/**
 * Attacks one example and reports every few texts. The result is that of the pool for the same
 * seed. It returns null if the signal stopped it.
 *
 * @example
 * for await (const { queries, edits } of watchAttack(victim, example, await loadAttack("pwws")))
 *   console.log(queries, edits);
 */
export async function* watchAttack<Prepared extends PreparedInput>(
  attacked: Victim<Prepared>,
  example: AttackExample,
  attack: Attack,
  { seed = 0, budget, signal }: WatchAttackOptions = {},
): AsyncGenerator<WatchedStep, AttackResult | null> {
  const victim = attacked.exact ?? attacked;
  const toInput = createInputBuilder(example);
  const known = new Map<string, Score>();
  const rng = new Rng(seed).fork("attack", attack.name).fork(example.id);
  const search = runSearch(example, attack, rng, victim.numLabels, budget);
  let best: { candidate: Candidate; score: Score; margin: number } | null = null;
  let queries = 0;
  let step = search.next();
  while (!step.done) {
    const candidates = step.value;
    const scores: Score[] = [];
    for (let start = 0; start < candidates.length; start += reportedTexts) {
      if (signal?.aborted) return null;
      const part = candidates.slice(start, start + reportedTexts);
      const prepared = part.map((candidate) => victim.prepare(toInput(candidate)));
      const keys = prepared.map(({ content }) => computeContentKey(content));
      const unknown = prepared.filter((_, i) => !known.has(keys[i]!) && keys.indexOf(keys[i]!) === i);
      const sorted = unknown.toSorted((a, b) => a.length - b.length);
      const rows = sorted.length > 0 ? await victim.probabilities(sorted) : [];
      for (const [i, row] of rows.entries()) known.set(computeContentKey(sorted[i]!.content), { probabilities: row });
      queries += sorted.length;
      for (const [i, candidate] of part.entries()) {
        const score = known.get(keys[i]!)!;
        scores.push(score);
        if (candidate.mask !== undefined) continue;
        const gap = margin(score, example.label);
        if (!best || gap < best.margin) best = { candidate, score, margin: gap };
      }
      yield {
        queries,
        edits: best ? listEdits(example, best.candidate) : [],
        probabilities: best ? Array.from(best.score.probabilities) : [],
        tried: [...new Set(part.flatMap((candidate) => listTried(candidate)))],
      };
      await yieldToEventLoop();
    }
    step = search.next(scores);
  }
  return step.value;
}

function listEdits(example: AttackExample, { replacementIndices }: Candidate): Edit[] {
  const final = applyReplacements(example, replacementIndices);
  return example.words.flatMap((from, position) =>
    final[position] === from ? [] : [{ position, from, to: final[position]! }],
  );
}

function listTried({ replacementIndices, mask }: Candidate): number[] {
  if (mask !== undefined) return [mask];
  return Array.from(replacementIndices.keys()).filter((position) => replacementIndices[position] !== 0);
}
