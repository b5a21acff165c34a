import { memoize } from "./memoize.js";
import { characterFlags, LETTER, NUMBER, SPACE, toWellFormed } from "./unicode.js";
import type { TokenizeFunction } from "./wordpiece.js";

export interface ByteBpeOptions {
  readonly vocabulary: ReadonlyMap<string, number>;
  /** In order of rank: the pair and what it becomes. */
  readonly merges: readonly { readonly left: number; readonly right: number; readonly merged: number }[];
  /** Stands for bytes the vocabulary lacks; null: they are dropped. */
  readonly unkId: number | null;
  /** Consecutive unknown bytes become one token. */
  readonly fuseUnknown: boolean;
  /** A word that is in the vocabulary is taken as it is, whatever the merges say. */
  readonly ignoreMerges: boolean;
  readonly addPrefixSpace: boolean;
}

/** A printable character for every byte: itself where it is visible Latin-1, else the next one from U+0100 on. */
export function createByteAlphabet(): readonly string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(visible ? byte : next++);
  });
}

const KINDS = LETTER | NUMBER | SPACE;
const contractionEnding = /'(?:s|t|re|ve|m|ll|d)/y;

/**
 * Where the piece ends that starts at `start`: an English ending, or a run of letters, of numbers or of other marks with the one
 * space before it, or white space up to the space that belongs to the next piece.
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

/** Byte-level byte-pair encoding (GPT-2, RoBERTa). */
export function createByteBpe(options: ByteBpeOptions): TokenizeFunction {
  const { vocabulary, merges, unkId: unknown } = options;
  const alphabet = createByteAlphabet();
  const byteIds = alphabet.map((character) => vocabulary.get(character) ?? -1);
  let width = 1;
  for (const { right } of merges) width = Math.max(width, right + 1);
  const ranks = new Map<number, number>();
  // Where a pair is listed twice, the last one counts, as in the official reader.
  merges.forEach(({ left, right }, rank) => {
    ranks.set(left * width + right, rank);
  });
  const encoder = new TextEncoder();

  /** Ids of the single bytes. */
  function symbols(bytes: Uint8Array): number[] {
    const ids: number[] = [];
    let previousUnknown = false;
    for (const byte of bytes) {
      const id = byteIds[byte]!;
      if (id >= 0) ids.push(id);
      else if (unknown !== null && !(options.fuseUnknown && previousUnknown)) ids.push(unknown);
      previousUnknown = id < 0;
    }
    return ids;
  }

  const pieces = memoize((text: string): readonly number[] => {
    const bytes = encoder.encode(text);
    if (options.ignoreMerges) {
      const whole = vocabulary.get(Array.from(bytes, (byte) => alphabet[byte]).join(""));
      if (whole !== undefined) return [whole];
    }
    return mergeSymbols(
      symbols(bytes),
      (left, right) => ranks.get(left * width + right),
      (rank) => merges[rank]!.merged,
    );
  });

  return (text, ids, limit) => {
    const whole = toWellFormed(options.addPrefixSpace && !text.startsWith(" ") ? ` ${text}` : text);
    for (let start = 0, end = 0; start < whole.length; start = end) {
      end = findPieceEnd(whole, start);
      for (const id of pieces(whole.slice(start, end))) ids.push(id);
      if (ids.length >= limit) return false;
    }
    return true;
  };
}

/** Applies the merge of least rank, leftmost first, until none is left. A heap keeps very long words from costing their square. */
function mergeSymbols(
  symbols: readonly number[],
  getRank: (left: number, right: number) => number | undefined,
  getMerged: (rank: number) => number,
): readonly number[] {
  const count = symbols.length;
  const ids = Int32Array.from(symbols);
  const next = Int32Array.from({ length: count }, (_, index) => index + 1);
  const previous = Int32Array.from({ length: count }, (_, index) => index - 1);
  // A key orders by rank, then by position; it is stale once the pair that stands there has another rank.
  const heap: number[] = [];
  const pairRank = (index: number): number | undefined => {
    const right = next[index]!;
    return ids[index]! < 0 || right >= count ? undefined : getRank(ids[index]!, ids[right]!);
  };
  const offer = (index: number): void => {
    const rank = index < 0 ? undefined : pairRank(index);
    if (rank !== undefined) push(heap, rank * count + index);
  };
  for (let index = 0; index < count; index++) offer(index);
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
    offer(previous[index]!);
    offer(index);
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
