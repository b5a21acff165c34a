import type { Encoding, Tokenizer } from "./encoding.js";

/** A sequence that is filled with the tokens of one text after the other. */
export interface PackedSequence extends Encoding {
  /** 1 for the first token of a word, 0 for the others. Null if words do not matter. */
  readonly wordStarts: Uint8Array | null;
}

/** Texts are tokenized in windows of this size, so that memory is bounded. */
const windowSize = 1000;

/**
 * Packs texts into sequences of `maxLength` tokens, as RoBERTa's FULL-SENTENCES: a separator
 * follows each text, and every sequence starts and ends with the special tokens of a single text.
 * Only the last sequence is shorter. Blank texts are left out.
 */
export function packTexts(
  tokenizer: Tokenizer,
  texts: readonly string[],
  maxLength: number,
  findWords = false,
  onProgress?: (done: number) => void,
): PackedSequence[] {
  const special = tokenizer.encode([""], maxLength).ids;
  const [first, ends] = [special.slice(0, 1), special.slice(1)];
  const capacity = maxLength - special.length;
  const stream: number[] = [];
  const starts: number[] = [];
  const sequences: PackedSequence[] = [];
  const flush = (count: number): void => {
    const ids = Int32Array.of(...first, ...stream.splice(0, count), ...ends);
    const wordStarts = Uint8Array.of(...first.map(() => 1), ...starts.splice(0, count), ...ends.map(() => 1));
    // The first token of a sequence may be in the middle of a word.
    if (count > 0) wordStarts[first.length] = 1;
    sequences.push({
      ids,
      tokenTypeIds: new Int32Array(ids.length),
      truncated: false,
      wordStarts: findWords ? wordStarts : null,
    });
  };
  for (let start = 0; start < texts.length; start += windowSize) {
    const window = texts.slice(start, start + windowSize).filter((text) => text.trim() !== "");
    const encodings = findWords
      ? window.map((text) => tokenizer.encodeWithOffsets([text], Number.MAX_SAFE_INTEGER))
      : tokenizer.encodeAll(
          window.map((text) => [text]),
          Number.MAX_SAFE_INTEGER,
        );
    for (const [i, encoding] of encodings.entries()) {
      const end = encoding.ids.length - ends.length;
      if (stream.length > 0) {
        stream.push(tokenizer.special.sepId);
        starts.push(1);
      }
      const offsets = "offsets" in encoding ? (encoding.offsets as readonly (readonly [number, number])[]) : null;
      for (let token = first.length; token < end; token++) {
        stream.push(encoding.ids[token]!);
        starts.push(offsets === null || !continuesWord(window[i]!, offsets[token - 1]!, offsets[token]!) ? 1 : 0);
      }
      while (stream.length >= capacity) flush(capacity);
    }
    onProgress?.(Math.min(start + windowSize, texts.length));
  }
  if (stream.length > 0) flush(stream.length);
  return sequences;
}

const wordCharacter = /[\p{L}\p{M}\p{N}]/u;

/** Returns true if a token continues the word of the token before it: no space or punctuation between. */
function continuesWord(
  text: string,
  [previousStart, previousEnd]: readonly [number, number],
  [start, end]: readonly [number, number],
): boolean {
  if (previousEnd === previousStart || start !== previousEnd || end === start) return false;
  const isInWord = (index: number): boolean => wordCharacter.test(String.fromCodePoint(text.codePointAt(index)!));
  return isInWord(previousEnd - 1) && isInWord(start);
}
