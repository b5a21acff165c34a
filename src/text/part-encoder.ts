import type { PackageTokenizer, TokenBatch } from "./tokenizer-worker.js";

/**
 * A call of the package takes about as long as the tokenization of a hundred words. Texts are
 * therefore split into parts at spaces, and the tokens of each part are cached, as the package
 * returned them. The candidates of an attack differ in one word, so they need almost no calls.
 */

const MAX_ENTRIES = 100_000;
const MAX_KEY_LENGTH = 64;
/** Texts that are tokenized together. More would need more memory. */
const SLICE_SIZE = 1024;

/**
 * Longer texts are truncated to this number of UTF-16 units. The tokens of the rest would be
 * truncated anyway.
 */
export const MAX_TEXT_LENGTH = 1 << 19;

/** A text to encode. Tokens after `limit` are not needed. */
export interface TextRequest {
  readonly text: string;
  readonly limit: number;
}

/** Encodes texts without special tokens. */
export interface PartEncoder {
  encode(requests: readonly TextRequest[]): number[][];
  encodeAsync(requests: readonly TextRequest[]): Promise<number[][]>;
}

/** Creates an encoder. If `canSplit` is false, a text is one part. */
export function createPartEncoder(tokenizer: PackageTokenizer, canSplit: boolean): PartEncoder {
  const cache = new Map<string, readonly number[]>();

  /** Yields parts that are not in the cache and receives their tokens. */
  function* encodeTexts(
    requests: readonly TextRequest[],
  ): Generator<readonly string[], number[][], readonly (readonly number[])[]> {
    const states = requests.map(({ text, limit }) => ({ text: limitText(text), limit, start: 0, ids: [] as number[] }));
    for (let open = states.filter(({ text }) => text !== ""); open.length > 0; ) {
      const missing = new Set<string>();
      const rounds = open.map((state) => {
        const parts: string[] = [];
        const count = state.limit - state.ids.length;
        for (let end = 0; state.start < state.text.length && parts.length < count; state.start = end) {
          end = canSplit ? findPartEnd(state.text, state.start) : state.text.length;
          const part = state.text.slice(state.start, end);
          parts.push(part);
          if (!cache.has(part)) missing.add(part);
        }
        return { state, parts };
      });
      const fresh = new Map<string, readonly number[]>();
      if (missing.size > 0) {
        const names = [...missing];
        const received = yield names;
        names.forEach((part, index) => {
          fresh.set(part, received[index]!);
        });
      }
      for (const { state, parts } of rounds)
        for (const part of parts) for (const id of cache.get(part) ?? fresh.get(part)!) state.ids.push(id);
      for (const [part, ids] of fresh) remember(part, ids);
      open = open.filter(({ text, start, ids, limit }) => start < text.length && ids.length < limit);
    }
    return states.map(({ ids }) => ids);
  }

  function remember(part: string, ids: readonly number[]): void {
    if (part.length > MAX_KEY_LENGTH) return;
    if (cache.size >= MAX_ENTRIES) cache.clear();
    // Copy the key, because a slice would keep the complete text in memory.
    cache.set(Buffer.from(part, "utf16le").toString("utf16le"), ids);
  }

  return {
    encode: (requests) =>
      splitIntoSlices(requests).flatMap((slice) => {
        const steps = encodeTexts(slice);
        let step = steps.next();
        while (!step.done) step = steps.next(splitTokens(tokenizer.encode(step.value)));
        return step.value;
      }),
    async encodeAsync(requests) {
      const all: number[][] = [];
      for (const slice of splitIntoSlices(requests)) {
        const steps = encodeTexts(slice);
        let step = steps.next();
        while (!step.done) step = steps.next(splitTokens(await tokenizer.encodeAsync(step.value)));
        all.push(...step.value);
      }
      return all;
    },
  };
}

function splitIntoSlices(requests: readonly TextRequest[]): TextRequest[][] {
  const count = Math.ceil(requests.length / SLICE_SIZE);
  return Array.from({ length: count }, (_, i) => requests.slice(i * SLICE_SIZE, (i + 1) * SLICE_SIZE));
}

/** Replaces lone surrogates, which cannot be written in UTF-8, and truncates very long texts. */
export function limitText(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return replaceSurrogates(text);
  const isPair = (text.codePointAt(MAX_TEXT_LENGTH - 1) ?? 0) > 0xffff;
  return replaceSurrogates(text.slice(0, isPair ? MAX_TEXT_LENGTH - 1 : MAX_TEXT_LENGTH));
}

function replaceSurrogates(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

function splitTokens(batches: readonly TokenBatch[]): number[][] {
  return batches.flatMap(({ counts, ids }) => {
    let end = 0;
    return Array.from(counts, (count) => {
      end += count;
      return Array.from(ids.subarray(end - count, end));
    });
  });
}

/**
 * Finds the next single space between two visible characters of the Latin, Greek or Cyrillic
 * alphabets. They do not combine with their neighbors, so a text can be split there.
 */
function findPartEnd(text: string, start: number): number {
  for (let space = text.indexOf(" ", start + 1); space !== -1; space = text.indexOf(" ", space + 1)) {
    if (isPlain(text.charCodeAt(space - 1)) && isPlain(text.charCodeAt(space + 1))) return space;
  }
  return text.length;
}

function isPlain(code: number): boolean {
  if (code < 0x7f) return code > 0x20;
  return (code >= 0xc0 && code <= 0x2af) || (code >= 0x386 && code <= 0x482) || (code >= 0x48a && code <= 0x52f);
}
