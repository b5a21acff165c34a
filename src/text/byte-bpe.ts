import { memoize } from "./memoize.js";
import { characterFlags, LETTER, NUMBER, SPACE, toWellFormed } from "./unicode.js";
import type { TokenizeFunction } from "./wordpiece.js";

/** The settings of byte-level BPE. */
interface ByteBpeOptions {
  readonly vocabulary: ReadonlyMap<string, number>;
  /** Pairs and their merged tokens, in order of rank. */
  readonly merges: readonly { readonly left: number; readonly right: number; readonly merged: number }[];
  /** Replaces bytes that are not in the vocabulary. If null, they are dropped. */
  readonly unkId: number | null;
  /** Merge consecutive unknown bytes into one token. */
  readonly fuseUnknown: boolean;
  /** Use a word as one token if it is in the vocabulary, without applying the merges. */
  readonly ignoreMerges: boolean;
  readonly addPrefixSpace: boolean;
}

/**
 * Maps every byte to a printable character: visible Latin-1 to itself, the others to U+0100 and up.
 */
function createByteAlphabet(): readonly string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(visible ? byte : next++);
  });
}

const KINDS = LETTER | NUMBER | SPACE;
const contractionEnding = /'(?:s|t|re|ve|m|ll|d)/y;

/**
 * Finds the end of the piece that begins at `start`. A piece is an English contraction; a run of
 * letters, numbers or other characters with one space before it; or white space without the space
 * that belongs to the next piece.
 */
function findPieceEnd(text: string, start: number): number {
  if (text[start] === "'") {
    contractionEnding.lastIndex = start;
    if (contractionEnding.test(text)) return contractionEnding.lastIndex;
  }
  const kindAt = (index: number): number => characterFlags[text.codePointAt(index)!]! & KINDS;
  const from = text[start] === " " && start + 1 < text.length && kindAt(start + 1) !== SPACE ? start + 1 : start;
  const kind = kindAt(from);
  let end = from;
  while (end < text.length && kindAt(end) === kind) end += text.codePointAt(end)! > 0xffff ? 2 : 1;
  return kind === SPACE && end < text.length && end > from + 1 ? end - 1 : end;
}

/** Creates byte-level byte-pair encoding (GPT-2, RoBERTa). */
export function createByteBpe(options: ByteBpeOptions): TokenizeFunction {
  const { vocabulary, merges, unkId } = options;
  const alphabet = createByteAlphabet();
  const byteIds = alphabet.map((character) => vocabulary.get(character) ?? -1);
  let width = 1;
  for (const { right } of merges) width = Math.max(width, right + 1);
  const ranks = new Map<number, number>();
  // If a pair is listed twice, the last one counts, as in the official tokenizer.
  merges.forEach(({ left, right }, rank) => {
    ranks.set(left * width + right, rank);
  });
  const encoder = new TextEncoder();

  function bytesToIds(bytes: Uint8Array): number[] {
    const ids: number[] = [];
    let previousUnknown = false;
    for (const byte of bytes) {
      const id = byteIds[byte]!;
      if (id >= 0) ids.push(id);
      else if (unkId !== null && !(options.fuseUnknown && previousUnknown)) ids.push(unkId);
      previousUnknown = id < 0;
    }
    return ids;
  }

  const pieces = memoize((text: string): readonly number[] => {
    const bytes = encoder.encode(text);
    if (options.ignoreMerges) {
      const wordId = vocabulary.get(Array.from(bytes, (byte) => alphabet[byte]).join(""));
      if (wordId !== undefined) return [wordId];
    }
    return mergeSymbols(
      bytesToIds(bytes),
      (left, right) => ranks.get(left * width + right),
      (rank) => merges[rank]!.merged,
    );
  });

  return (text, ids, limit) => {
    const prefixed = toWellFormed(options.addPrefixSpace && !text.startsWith(" ") ? ` ${text}` : text);
    for (let start = 0, end = 0; start < prefixed.length; start = end) {
      end = findPieceEnd(prefixed, start);
      for (const id of pieces(prefixed.slice(start, end))) ids.push(id);
      if (ids.length >= limit) return false;
    }
    return true;
  };
}

/**
 * Applies the merge of lowest rank, leftmost first, until none is left. A heap avoids quadratic
 * time for long words.
 */
function mergeSymbols(
  symbols: readonly number[],
  getRank: (left: number, right: number) => number | undefined,
  getMerged: (rank: number) => number,
): readonly number[] {
  const count = symbols.length;
  const ids = Int32Array.from(symbols);
  const next = Int32Array.from({ length: count }, (_, index) => index + 1);
  const previous = Int32Array.from({ length: count }, (_, index) => index - 1);
  // Keys are ordered by rank, then by position. A key is stale if the pair at its position has
  // another rank now.
  const heap: number[] = [];
  const pairRank = (index: number): number | undefined => {
    const right = next[index]!;
    return ids[index]! < 0 || right >= count ? undefined : getRank(ids[index]!, ids[right]!);
  };
  const enqueue = (index: number): void => {
    const rank = index < 0 ? undefined : pairRank(index);
    if (rank !== undefined) push(heap, rank * count + index);
  };
  for (let index = 0; index < count; index++) enqueue(index);
  while (heap.length > 0) {
    const key = pop(heap);
    const index = key % count;
    const rank = (key - index) / count;
    if (pairRank(index) !== rank) continue;
    const right = next[index]!;
    ids[index] = getMerged(rank);
    ids[right] = -1;
    next[index] = next[right]!;
    if (next[right]! < count) previous[next[right]!] = index;
    enqueue(previous[index]!);
    enqueue(index);
  }
  return Array.from(ids.filter((id) => id >= 0));
}

function push(heap: number[], key: number): void {
  let index = heap.length;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (heap[parent]! <= key) break;
    heap[index] = heap[parent]!;
    index = parent;
  }
  heap[index] = key;
}

function pop(heap: number[]): number {
  const top = heap[0]!;
  const key = heap.pop()!;
  const size = heap.length;
  for (let index = 0; index < size; ) {
    let child = 2 * index + 1;
    if (child + 1 < size && heap[child + 1]! < heap[child]!) child++;
    if (child >= size || heap[child]! >= key) {
      heap[index] = key;
      break;
    }
    heap[index] = heap[child]!;
    index = child;
  }
  return top;
}
