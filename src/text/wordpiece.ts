import { memoize } from "./memoize.js";
import { ACCENT, characterFlags, decompose, IDEOGRAPH, PUNCTUATION, REMOVED, SPACE, toWellFormed } from "./unicode.js";

/** The options of BERT's normalizer, named as in tokenizer.json. */
export interface BertNormalizerOptions {
  readonly clean_text: boolean;
  readonly handle_chinese_chars: boolean;
  /** If null, the same as `lowercase`. */
  readonly strip_accents: boolean | null;
  readonly lowercase: boolean;
}

/** The settings of WordPiece. */
interface WordPieceOptions {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unkId: number;
  /** The prefix of pieces that continue a word ("##"). */
  readonly continuingPrefix: string;
  /** Longer words are unknown. */
  readonly maxCharacters: number;
}

/**
 * Appends the token IDs of a normalized text. Returns false if it stopped early because there are
 * `limit` IDs.
 */
export type TokenizeFunction = (text: string, ids: number[], limit: number) => boolean;

const plainAscii = /^[ -~]*$/;

/**
 * Creates BERT's normalizer: clean, put spaces around ideographs, strip accents, lowercase; each if
 * enabled.
 */
export function createBertNormalizer(options: BertNormalizerOptions): (text: string) => string {
  const { clean_text: clean, handle_chinese_chars: addSpaces, lowercase } = options;
  const strip = options.strip_accents ?? lowercase;
  const rewrite = (text: string): string => {
    let result = "";
    for (const character of text) {
      const flag = characterFlags[character.codePointAt(0)!]!;
      // The removed characters include U+0000 and U+FFFD (replacement character).
      if (clean && flag & REMOVED) continue;
      if (clean && flag & SPACE) result += " ";
      else if (addSpaces && flag & IDEOGRAPH) result += ` ${character} `;
      else result += character;
    }
    return result;
  };
  const withoutAccents = (text: string): string => {
    let result = "";
    for (const character of decompose(text))
      if (!(characterFlags[character.codePointAt(0)!]! & ACCENT)) result += character;
    return result;
  };
  return (text) => {
    if (plainAscii.test(text)) return lowercase ? text.toLowerCase() : text;
    let result = toWellFormed(text);
    if (clean || addSpaces) result = rewrite(result);
    if (strip) result = withoutAccents(result);
    // In JavaScript the lowercase of a capital sigma depends on its position. In the official
    // tokenizer it does not.
    return lowercase ? result.replaceAll("Σ", "σ").toLowerCase() : result;
  };
}

/**
 * Creates WordPiece: split at white space and punctuation, then match the longest pieces from the
 * left.
 */
export function createWordPiece(options: WordPieceOptions): TokenizeFunction {
  const { vocabulary, unkId, continuingPrefix, maxCharacters } = options;
  const continuing = new Map<string, number>();
  let longest = 0;
  for (const [token, id] of vocabulary) {
    longest = Math.max(longest, token.length);
    if (token.startsWith(continuingPrefix)) continuing.set(token.slice(continuingPrefix.length), id);
  }

  const isTooLong = (word: string): boolean =>
    word.length > maxCharacters && (word.length > 2 * maxCharacters || [...word].length > maxCharacters);

  const pieces = memoize((word: string): readonly number[] => {
    if (isTooLong(word)) return [unkId];
    const ids: number[] = [];
    for (let start = 0; start < word.length; ) {
      const table = start === 0 ? vocabulary : continuing;
      let end = Math.min(word.length, start + longest);
      let id: number | undefined;
      for (; end > start; end--) {
        id = table.get(word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return [unkId];
      ids.push(id);
      start = end;
    }
    return ids;
  });

  /** Returns the new number of IDs. */
  function append(word: string, ids: number[]): number {
    const wordId = vocabulary.get(word);
    if (wordId !== undefined && word.length <= maxCharacters) return ids.push(wordId);
    for (const id of pieces(word)) ids.push(id);
    return ids.length;
  }

  return (text, ids, limit) => {
    let start = 0;
    for (let index = 0; index < text.length; ) {
      const code = text.codePointAt(index)!;
      const next = index + (code > 0xffff ? 2 : 1);
      const flag = characterFlags[code]! & (SPACE | PUNCTUATION);
      if (flag) {
        if (index > start && append(text.slice(start, index), ids) >= limit) return false;
        if (flag & PUNCTUATION && append(text.slice(index, next), ids) >= limit) return false;
        start = next;
      }
      index = next;
    }
    return text.length <= start || append(text.slice(start), ids) < limit;
  };
}
