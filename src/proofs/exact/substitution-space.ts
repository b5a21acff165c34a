import type { EditedText, Slot } from "../../attacks/edited-text.js";
import { groupBy } from "../../base/group-by.js";

/** A word and its substitutes, without those that the victim cannot tell apart. */
export interface WordSubstitutes {
  readonly position: number;
  readonly field: number;
  readonly start: number;
  readonly end: number;
  readonly substitutes: readonly string[];
}

/** A local model's reading of texts, without truncation. */
export interface TokenReader {
  /** The token IDs of texts. */
  read(inputs: readonly (readonly string[])[]): Int32Array[];
  /** Tokens of one text that the model keeps. */
  readonly maxLength: number;
}

/**
 * Groups single substitutions by word and removes what cannot matter. Substitutes with equal token
 * IDs collapse into the first one, and those that equal the original word vanish. A word of one
 * text is removed if it stays behind the truncation, however short other substitutes are. The
 * tokens of a word do not depend on other words only if there is space around it, so other words
 * keep all substitutes.
 */
export function reduceSpace(
  original: EditedText,
  candidates: readonly EditedText[],
  maxChanges: number,
  reader: TokenReader | null,
): WordSubstitutes[] {
  const replaced = candidates.filter(({ edit }) => edit?.kind === "replace");
  const words = [...groupBy(replaced, ({ position }) => position)].sort(([a], [b]) => a - b);
  const kept = reader ? removeEqualTokens(original, words, maxChanges, reader) : words;
  return kept.map(([position, texts]) => {
    const { field, start, end } = original.slots[position]!;
    return { position, field, start, end, substitutes: texts.map(getWord) };
  });
}

type WordCandidates = readonly [position: number, candidates: readonly EditedText[]];

function getWord({ edit }: EditedText): string {
  return edit?.kind === "replace" ? edit.word : "";
}

function removeEqualTokens(
  original: EditedText,
  words: readonly WordCandidates[],
  maxChanges: number,
  { read, maxLength }: TokenReader,
): WordCandidates[] {
  const [tokens, ...all] = read([original.texts, ...words.flatMap(([, texts]) => texts.map((each) => each.texts))]);
  const shortest: number[] = [];
  let next = 0;
  const reduced = words.map(([position, texts]): WordCandidates => {
    const seen = new Set([getKey(tokens!)]);
    const ids = texts.map(() => all[next++]!);
    shortest.push(Math.max(0, ...ids.map(({ length }) => tokens!.length - length)));
    const isCollapsible = hasSpaceAround(original, original.slots[position]!);
    const different = texts.filter((_, i) => {
      const key = getKey(ids[i]!);
      if (!isCollapsible || !seen.has(key)) return seen.add(key);
      return false;
    });
    return [position, different];
  });
  const saved = shortest.toSorted((a, b) => b - a).slice(0, maxChanges);
  const longest = maxLength + saved.reduce((sum, tokensSaved) => sum + tokensSaved, 0);
  const isVisible = ([position]: WordCandidates): boolean => {
    const { field, start } = original.slots[position]!;
    // Of a pair, the longer text is truncated first, so both may move.
    if (original.texts.length > 1 || tokens!.length <= maxLength) return true;
    const [before] = read([[original.texts[field]!.slice(0, start)]]);
    return before!.length <= longest;
  };
  return reduced.filter((word) => word[1].length > 0 && isVisible(word));
}

function getKey(ids: Int32Array): string {
  return Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength).toString("latin1");
}

function hasSpaceAround({ texts }: EditedText, { field, start, end }: Slot): boolean {
  const text = texts[field]!;
  return /^\s?$/.test(text.slice(Math.max(0, start - 1), start)) && /^\s?$/.test(text.slice(end, end + 1));
}
