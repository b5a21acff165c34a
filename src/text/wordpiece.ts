import { memoize } from "./memoize.js";
import { ACCENT, characterFlags, decompose, IDEOGRAPH, PUNCTUATION, REMOVED, SPACE, toWellFormed } from "./unicode.js";

/** BERT's normaliser, by the options of tokenizer.json. */
export interface BertNormalizerOptions {
  readonly clean_text: boolean;
  readonly handle_chinese_chars: boolean;
  /** null: stripped where lower-casing is on. */
  readonly strip_accents: boolean | null;
  readonly lowercase: boolean;
}

export interface WordPieceOptions {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unkId: number;
  /** What a piece that continues a word begins with ("##"). */
  readonly continuingPrefix: string;
  /** Longer words are unknown without a search. */
  readonly maxCharacters: number;
}

/** Appends the token ids of normalised text; false where it stopped early, at the word with which there are `limit` ids. */
export type TokenizeFunction = (text: string, ids: number[], limit: number) => boolean;

const plainAscii = /^[ -~]*$/;

/** Cleaning, ideographs set apart, accents stripped, lower case: in this order, each by its option. */
export function createBertNormalizer(options: BertNormalizerOptions): (text: string) => string {
  const { clean_text: clean, handle_chinese_chars: spaced, lowercase } = options;
  const strip = options.strip_accents ?? lowercase;
  const rewrite = (text: string): string => {
    let result = "";
    for (const character of text) {
      const flag = characterFlags[character.codePointAt(0)!]!;
      // U+0000 is a control character; U+FFFD, which stands for broken text, goes with them.
      if (clean && flag & REMOVED) continue;
      if (clean && flag & SPACE) result += " ";
      else if (spaced && flag & IDEOGRAPH) result += ` ${character} `;
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
    if (clean || spaced) result = rewrite(result);
    if (strip) result = withoutAccents(result);
    // A capital sigma becomes the same letter everywhere: the official one looks at no neighbours, JavaScript does.
    return lowercase ? result.replaceAll("Σ", "σ").toLowerCase() : result;
  };
}

/** Words by white space and punctuation, then the longest pieces of each from the left. */
export function createWordPiece(options: WordPieceOptions): TokenizeFunction {
  const { vocabulary, unkId: unknown, continuingPrefix, maxCharacters } = options;
  const continuing = new Map<string, number>();
  let longest = 0;
  for (const [token, id] of vocabulary) {
    longest = Math.max(longest, token.length);
    if (token.startsWith(continuingPrefix)) continuing.set(token.slice(continuingPrefix.length), id);
  }

  const tooLong = (word: string): boolean =>
    word.length > maxCharacters && (word.length > 2 * maxCharacters || [...word].length > maxCharacters);

  const pieces = memoize((word: string): readonly number[] => {
    if (tooLong(word)) return [unknown];
    const ids: number[] = [];
    for (let start = 0; start < word.length; ) {
      const table = start === 0 ? vocabulary : continuing;
      let end = Math.min(word.length, start + longest);
      let id: number | undefined;
      for (; end > start; end--) {
        id = table.get(word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return [unknown];
      ids.push(id);
      start = end;
    }
    return ids;
  });

  /** Returns how many ids there are now. */
  function append(word: string, ids: number[]): number {
    const whole = vocabulary.get(word);
    if (whole !== undefined && word.length <= maxCharacters) return ids.push(whole);
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
