import { basename } from "node:path";
import { UserError } from "../errors.js";
import { sha256File } from "../files.js";
import { readJournal } from "./journal.js";
import type { AttackResult } from "./result.js";
import {
  type Attack,
  type CandidateGenerator,
  countChangedWords,
  createUnchangedCandidate,
  type SearchProblem,
} from "./search.js";

type TransferredText = Pick<AttackResult, "words" | "final">;

/**
 * Creates an attack that tries the final texts from another model's journal. It makes one query
 * per example, so an attack that searches on this model should find more. If it does not, that
 * attack is too weak.
 */
export async function createTransferAttack(
  journal: string,
  examples: readonly { readonly id: string }[],
): Promise<Attack> {
  const texts = new Map<string, TransferredText>();
  for await (const { result } of readJournal(journal))
    texts.set(result.id, { words: result.words, final: result.final });
  const covered = examples.filter(({ id }) => texts.has(id)).length;
  // An example without a transferred text would count as robust.
  if (covered < examples.length)
    throw new UserError(
      `--transfer-from ${journal} covers only ${covered} of ${examples.length} examples. Attack both models with the ` +
        "same --task, --split, --num-examples and --seed.",
    );
  return {
    name: `transfer-${basename(journal, ".jsonl")}`,
    options: {},
    source: await sha256File(journal),
    hasBudget: false,
    search: (problem) => searchTransfer(problem, texts.get(problem.id)!, journal),
  };
}

/** Words outside this model's attack space, or truncated for one of the models, stay unchanged. */
function* searchTransfer(
  problem: SearchProblem,
  { words, final }: TransferredText,
  journal: string,
): CandidateGenerator {
  const length = Math.min(words.length, problem.words.length);
  const different = problem.words.slice(0, length).findIndex((word, i) => word !== words[i]);
  if (different >= 0)
    throw new UserError(
      `--transfer-from ${journal}: example ${problem.id} has "${words[different]}" there, but ` +
        `"${problem.words[different]}" here. Use the same data and --max-length for both models.`,
    );
  const replacementIndices = Int16Array.from(problem.replacements, (replacements, i) =>
    i < length ? Math.max(0, replacements.indexOf(final[i]!)) : 0,
  );
  const changed = countChangedWords(replacementIndices);
  if (changed === 0 || changed > problem.maxChanged) return createUnchangedCandidate(problem);
  yield [{ replacementIndices }];
  return { replacementIndices };
}
