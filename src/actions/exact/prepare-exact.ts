import { createHash } from "node:crypto";
import { join } from "node:path";
import { fitContext } from "../../attacks/constraints/context.js";
import { onlyFields } from "../../attacks/constraints/words.js";
import { EditedText } from "../../attacks/edited-text.js";
import { computeTogether } from "../../attacks/requests.js";
import type { AttackResources } from "../../attacks/resources.js";
import { expandText, findOpenPositions } from "../../attacks/run-recipe.js";
import { swapFromTable } from "../../attacks/transformations/swap-from-table.js";
import { Rng } from "../../base/rng.js";
import { reduceSpace, type TokenReader, type WordSubstitutes } from "../../proofs/index.js";
import type { Example } from "../../tasks/example.js";
import type { LoadedVictim } from "../load/load-victim.js";

export interface ExactText {
  readonly original: EditedText;
  readonly words: readonly WordSubstitutes[];
}

/** Texts that are expanded together, so that a sentence encoder gets full batches. */
const groupSize = 64;

export async function prepareTexts(
  examples: readonly Pick<Example, "texts">[],
  { victim, local }: LoadedVictim,
  { substitutions, context }: Partial<AttackResources>,
  { modifiableFields, maxChanges }: { readonly modifiableFields: readonly number[]; readonly maxChanges: number },
): Promise<ExactText[]> {
  const parts = {
    transformations: [swapFromTable(substitutions!)],
    constraints: [onlyFields(modifiableFields), ...fitContext(context)],
  };
  const reader = local ? createTokenReader(local.model) : null;
  const prepared: ExactText[] = [];
  for (let start = 0; start < examples.length; start += groupSize) {
    const originals = examples
      .slice(start, start + groupSize)
      .map(({ texts }) => EditedText.create(texts, victim.findWords));
    const rng = new Rng(0);
    const expanded = await computeTogether(
      originals.map((original) => expandText(parts, original, findOpenPositions(parts, original), rng)),
    );
    for (const [i, original] of originals.entries())
      prepared.push({ original, words: reduceSpace(original, expanded[i]!, maxChanges, reader) });
  }
  return prepared;
}

/** More tokens than any text has. */
const anyLength = 1_000_000;

function createTokenReader({
  tokenizer,
  tokenization,
  maxLength,
}: NonNullable<LoadedVictim["local"]>["model"]): TokenReader {
  const read: TokenReader["read"] = (inputs) =>
    tokenization === "subword"
      ? tokenizer.encodeAll(inputs, anyLength).map(({ ids }) => ids)
      : inputs.map((texts) => tokenizer.encodeWords(texts, anyLength).ids);
  return { read, maxLength };
}

export function getProofPath(out: string, maxChanges: number, header: object): string {
  const hash = createHash("sha256").update(JSON.stringify(header)).digest("hex");
  return join(out, `k${maxChanges}-${hash.slice(0, 12)}.jsonl`);
}
