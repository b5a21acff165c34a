import { basename } from "node:path";
import { UserError } from "../errors.js";
import { sha256File } from "../files.js";
import type { Attack } from "./attack-definition.js";
import { readJournal } from "./journal.js";
import type { AttackResult } from "./result.js";
import {
  type Candidate,
  countChangedWords,
  createUnchangedCandidate,
  type Score,
  type SearchProblem,
} from "./search.js";

type TransferredText = Pick<AttackResult, "words" | "final">;

/**
 * The final texts of another model's journal as an attack on this one's examples. It asks one text an example, so an attack that
 * searches on the model itself should find more: where it does not, that attack is too weak.
 */
export async function createTransferAttack(
  journal: string,
  examples: readonly { readonly id: string }[],
): Promise<Attack> {
  const moved = new Map<string, TransferredText>();
  for await (const { result } of readJournal(journal))
    moved.set(result.id, { words: result.words, final: result.final });
  const there = examples.filter(({ id }) => moved.has(id)).length;
  // A text that was never tried would count as one that held.
  if (there < examples.length)
    throw new UserError(
      `--transfer-from ${journal}: it holds ${there} of the ${examples.length} examples; attack the same ones on both models (--task, --split, --num-examples, --seed)`,
    );
  return {
    name: `transfer-${basename(journal, ".jsonl")}`,
    options: {},
    source: await sha256File(journal),
    hasBudget: false,
    search: (problem) => searchTransfer(problem, moved.get(problem.id)!, journal),
  };
}

/** Words outside this model's attack space stay as they are, as do those that one of the models does not read. */
function* searchTransfer(
  problem: SearchProblem,
  { words, final }: TransferredText,
  journal: string,
): Generator<Candidate[], Candidate, Score[]> {
  const shared = Math.min(words.length, problem.words.length);
  const other = problem.words.slice(0, shared).findIndex((word, i) => word !== words[i]);
  if (other >= 0)
    throw new UserError(
      `--transfer-from ${journal}: example ${problem.id} reads "${words[other]}" there where it reads "${problem.words[other]}" here; use the same data, and models that cut texts alike (--max-length)`,
    );
  const picks = Int16Array.from(problem.replacements, (slots, i) =>
    i < shared ? Math.max(0, slots.indexOf(final[i]!)) : 0,
  );
  if (countChangedWords(picks) === 0 || countChangedWords(picks) > problem.maxChanged)
    return createUnchangedCandidate(problem);
  yield [{ replacementIndices: picks }];
  return { replacementIndices: picks };
}
