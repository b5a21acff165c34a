import type { TokenizerFile } from "./tokenizer-file.js";
import type { TokenizerModel } from "./tokenizer-model.js";

/**
 * A call of the package costs as much as a hundred words. Most words consist of ASCII characters,
 * for which WordPiece and byte-level BPE are simple. Such words are encoded here. Everything else
 * is left to the package, and tests compare both.
 */

/** Longer parts take quadratic time. They are rare. */
const MAX_LENGTH = 64;
const printable = /^[ -~]+$/;

/** Returns the tokens of a part of a text, or null if only the package can encode it. */
export type AsciiEncoder = (part: string) => readonly number[] | null;

/** Creates the encoder. It returns null for every part if the tokenizer has other components. */
export function createAsciiEncoder(file: TokenizerFile): AsciiEncoder {
  const encode = createWordEncoder(file);
  if (encode === null || !file.addedTokens.every((token) => isComparable(token, file))) return () => null;
  const added = file.addedTokens.map(({ content }) => content.toLowerCase());
  return (part) => {
    if (part.length > MAX_LENGTH || !printable.test(part)) return null;
    const lowered = part.toLowerCase();
    return added.some((content) => lowered.includes(content)) ? null : encode(part);
  };
}

/** Normalization could turn another added token into ASCII characters. */
function isComparable(token: TokenizerFile["addedTokens"][number], { normalizers }: TokenizerFile): boolean {
  return !token.normalized || normalizers.length === 0 || printable.test(token.content);
}

function createWordEncoder({ model, normalizers, preTokenizers }: TokenizerFile): AsciiEncoder | null {
  const [preTokenizer, ...others] = preTokenizers;
  if (others.length > 0 || preTokenizer === undefined) return null;
  if (model.type === "WordPiece" && preTokenizer.type === "BertPreTokenizer") {
    const [normalizer] = normalizers;
    if (normalizers.length !== 1 || normalizer?.type !== "BertNormalizer") return null;
    return createWordPiece(model, normalizer.lowercase);
  }
  // The Unicode normal forms do not change ASCII characters.
  const isUnchanged = normalizers.every(({ type }) => /^NFK?[CD]$/.test(type));
  if (model.type === "BPE" && preTokenizer.type === "ByteLevel" && preTokenizer.use_regex && isUnchanged)
    return createByteBpe(model, preTokenizer.add_prefix_space);
  return null;
}

/** Creates WordPiece: split at spaces and punctuation, then match the longest pieces first. */
function createWordPiece(model: Extract<TokenizerModel, { type: "WordPiece" }>, lowercase: boolean): AsciiEncoder {
  const { vocabulary, continuing_subword_prefix: prefix, max_input_chars_per_word: maxCharacters } = model;
  const unkId = vocabulary.get(model.unk_token)!;
  const encodeWord = (word: string, ids: number[]): void => {
    const count = ids.length;
    let start = word.length > maxCharacters ? -1 : 0;
    while (start >= 0 && start < word.length) {
      let end = word.length;
      let id: number | undefined;
      for (; end > start && id === undefined; end--)
        id = vocabulary.get(start === 0 ? word.slice(0, end) : prefix + word.slice(start, end));
      if (id !== undefined) ids.push(id);
      start = id === undefined ? -1 : end + 1;
    }
    if (start < 0) {
      ids.length = count;
      ids.push(unkId);
    }
  };
  return (part) => {
    const ids: number[] = [];
    for (const word of (lowercase ? part.toLowerCase() : part).match(/[A-Za-z0-9]+|[^A-Za-z0-9 ]/g) ?? [])
      encodeWord(word, ids);
    return ids;
  };
}

/** Creates byte-level BPE (GPT-2, RoBERTa): apply the merges of lowest rank first. */
function createByteBpe(model: Extract<TokenizerModel, { type: "BPE" }>, addPrefixSpace: boolean): AsciiEncoder | null {
  const { vocabulary, ignore_merges: ignoresMerges } = model;
  if (model.continuing_subword_prefix || model.end_of_word_suffix) return null;
  let ranks: ReadonlyMap<string, number> | undefined;
  const encodePiece = (piece: string): readonly number[] | null => {
    const id = ignoresMerges ? vocabulary.get(piece) : undefined;
    if (id !== undefined) return [id];
    ranks ??= new Map(model.merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    const symbols = [...piece];
    for (;;) {
      let lowest = Number.POSITIVE_INFINITY;
      let position = -1;
      for (let index = 0; index + 1 < symbols.length; index++) {
        const rank = ranks.get(`${symbols[index]} ${symbols[index + 1]}`) ?? lowest;
        if (rank < lowest) [lowest, position] = [rank, index];
      }
      if (position < 0) break;
      symbols.splice(position, 2, symbols[position]! + symbols[position + 1]!);
    }
    const ids = symbols.map((symbol) => vocabulary.get(symbol));
    return ids.includes(undefined) ? null : (ids as number[]);
  };
  return (part) => {
    const text = addPrefixSpace && !part.startsWith(" ") ? ` ${part}` : part;
    const pieces = text.match(/'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9 ]+| +(?![^ ])| +/g) ?? [];
    // In the byte alphabet, the space is "Ġ" and other printable characters are themselves.
    const ids = pieces.map((piece) => encodePiece(piece.replaceAll(" ", "Ġ")));
    return ids.includes(null) ? null : (ids as readonly (readonly number[])[]).flat();
  };
}
