import { basename } from "node:path";
import { sha256File } from "../files.js";
import type { Attack } from "./attack.js";
import { readJournal } from "./journal.js";
import { type Candidate, changedCount, type Problem, type Score, unchanged } from "./search.js";

/**
 * The final texts of another model's journal as an attack on this one. It asks one text an example, so an attack that searches on
 * the model itself should find more: where it does not, that attack is too weak.
 */
export async function transferAttack(journal: string): Promise<Attack> {
  const finals = new Map<string, readonly string[]>();
  for await (const { result } of readJournal(journal)) if (result.edits.length > 0) finals.set(keyOf(result.words), result.final);
  return {
    name: `transfer-${basename(journal, ".jsonl")}`,
    options: {},
    source: await sha256File(journal),
    limited: false,
    search: (problem) => searchTransfer(problem, finals.get(keyOf(problem.words)) ?? problem.words),
  };
}

function keyOf(words: readonly string[]): string {
  return words.join(" ");
}

/** Words outside this model's attack space stay as they are. */
function* searchTransfer(problem: Problem, final: readonly string[]): Generator<Candidate[], Candidate, Score[]> {
  const picks = Int16Array.from(problem.choices, (slots, i) => Math.max(0, slots.indexOf(final[i]!)));
  if (changedCount(picks) === 0 || changedCount(picks) > problem.maxChanged) return unchanged(problem);
  yield [{ picks }];
  return { picks };
}
