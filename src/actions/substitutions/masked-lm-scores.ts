import { type MaskedLm, scoreTokens, type TokenQuery } from "../../models/index.js";
import type { LmScores } from "../../text/lm-scores.js";
import type { Substitutions } from "../../text/substitutions.js";
import { splitWords } from "../../text/words.js";

/** Scores of one text as plain data: [position, [[word, score], …]][]. */
export type PositionScores = (readonly [number, (readonly [string, number])[]])[];

/**
 * Creates a function that scores the substitutes of every word of a text: log P(word | the other
 * words). If a word has several tokens, they are masked together and their log-probabilities are
 * added. A long text is cut to `maxLength` tokens around the word.
 */
export function createSubstituteScorer(
  model: MaskedLm,
  table: Substitutions,
  maxLength: number,
): (text: string) => Pick<LmScores, "text"> & { readonly scores: PositionScores } {
  const { tokenizer, maskId } = model;
  const special = tokenizer.encode([""], model.maxLength).ids;
  const capacity = Math.min(maxLength, model.maxLength) - special.length;
  const known = new Map<string, readonly number[]>();
  /** The tokens of a word. Some tokenizers mark whether a space precedes it. */
  const tokenizeWord = (word: string, isFirst: boolean): readonly number[] => {
    const key = `${isFirst} ${word}`;
    const found = known.get(key);
    if (found) return found;
    const before = isFirst ? "" : "a ";
    const { ids, offsets } = tokenizer.encodeWithOffsets([before + word], model.maxLength);
    const tokens = [...ids].filter((_, i) => offsets[i]![1] > before.length);
    known.set(key, tokens);
    return tokens;
  };
  const createEncoding = (left: readonly number[], count: number, right: readonly number[]) => {
    const available = Math.max(0, capacity - count);
    const kept = Math.min(left.length, Math.max(Math.ceil(available / 2), available - right.length));
    const start = left.slice(left.length - kept);
    const middle = new Array<number>(count).fill(maskId);
    const ids = Int32Array.of(
      special[0]!,
      ...start,
      ...middle,
      ...right.slice(0, available - kept),
      ...special.slice(1),
    );
    const encoding = { ids, tokenTypeIds: new Int32Array(ids.length), truncated: false };
    return { encoding, first: 1 + kept };
  };
  return (original) => {
    const words = splitWords(original).map((word) => word.toLowerCase());
    const tokens = words.map((word, i) => tokenizeWord(word, i === 0));
    const queries: TokenQuery[] = [];
    const targets: { position: number; words: readonly string[] }[] = [];
    for (const [position, word] of words.entries()) {
      const substitutes = table.getSubstitutes(word).map((other) => other.toLowerCase());
      if (substitutes.length === 0) continue;
      const left = tokens.slice(0, position).flat();
      const right = tokens.slice(position + 1).flat();
      const byLength = new Map<number, Map<string, readonly number[]>>();
      for (const candidate of new Set([word, ...substitutes])) {
        const ids = tokenizeWord(candidate, position === 0);
        if (ids.length === 0 || ids.length > capacity) continue;
        const group = byLength.get(ids.length) ?? new Map<string, readonly number[]>();
        byLength.set(ids.length, group.set(candidate, ids));
      }
      for (const [count, group] of byLength) {
        const { encoding, first } = createEncoding(left, count, right);
        for (let i = 0; i < count; i++) {
          queries.push({ encoding, position: first + i, candidateIds: [...group.values()].map((ids) => ids[i]!) });
          targets.push({ position, words: [...group.keys()] });
        }
      }
    }
    const byPosition = new Map<number, Map<string, number>>();
    for (const [q, scores] of scoreTokens(model, queries).entries()) {
      const target = targets[q]!;
      const sums = byPosition.get(target.position) ?? new Map<string, number>();
      byPosition.set(target.position, sums);
      for (const [i, word] of target.words.entries()) sums.set(word, (sums.get(word) ?? 0) + scores[i]!);
    }
    return { text: words.join(" "), scores: [...byPosition].map(([position, sums]) => [position, [...sums]] as const) };
  };
}
