import { basename } from "node:path";
import { UserError } from "../base/errors.js";
import { sha256File } from "../base/files.js";
import type { ReadyAttack } from "./define-attack.js";
import { untargeted } from "./goals.js";
import { readJournal } from "./journal.js";
import { type Constraint, type Search, score } from "./protocol.js";
import type { AttackResult } from "./result.js";

type TransferredText = Pick<AttackResult, "texts" | "finalTexts">;

/**
 * Creates an attack that tries the final texts from another model's journal. It makes one query
 * per example, so an attack that searches on this model should find more. If it does not, that
 * attack is too weak. The models may split texts into words differently.
 */
export async function createTransferAttack(
  journal: string,
  examples: readonly { readonly id: string }[],
  constraints: readonly Constraint[],
): Promise<ReadyAttack> {
  const transferred = new Map<string, TransferredText>();
  for await (const { result } of readJournal(journal)) {
    const { texts, finalTexts } = result;
    transferred.set(result.id, { texts, finalTexts });
  }
  const covered = examples.filter(({ id }) => transferred.has(id)).length;
  // An example without a transferred text would count as robust.
  if (covered < examples.length)
    throw new UserError(
      `--transfer-from ${journal} covers only ${covered} of ${examples.length} examples. Attack both models with the ` +
        "same --task, --split, --num-examples and --seed.",
    );
  return {
    name: `transfer-${basename(journal, ".jsonl")}`,
    options: {},
    hasBudget: false,
    isWhiteBox: false,
    hashes: { search: await sha256File(journal) },
    recipe: {
      goal: untargeted,
      transformations: [{ name: `the texts of ${journal}`, kind: "text", apply: () => [] }],
      constraints,
      search: createTransferSearch(transferred, journal),
    },
  };
}

function createTransferSearch(transferred: ReadonlyMap<string, TransferredText>, journal: string): Search {
  return {
    name: "the text that another model's attack found",
    cost: "2",
    *run(problem) {
      const { text: original } = problem.original;
      const { texts, finalTexts } = transferred.get(problem.id)!;
      const different = texts.findIndex((text, field) => text !== original.texts[field]);
      if (different >= 0)
        throw new UserError(
          `--transfer-from ${journal}: example ${problem.id} is "${texts[different]}" there, but ` +
            `"${original.texts[different]}" here. Use the same data for both models.`,
        );
      const text = original.apply({ kind: "rewrite", texts: finalTexts });
      if (text.numChanged === 0 || !problem.isAllowed(text)) return original;
      yield* score([{ text }]);
      return text;
    },
  };
}
