import type { AsciiEncoder } from "./ascii-encoder.js";
import { appendSharedEnd, copySharedStart, type EncodedParts, findSharedEnd } from "./shared-parts.js";
import type { PackageTokenizer, TokenBatch } from "./tokenizer-worker.js";

/**
 * A call of the package takes about as long as the tokenization of a hundred words. Texts are
 * therefore split into parts at spaces, and the tokens of each part are cached, as the package
 * returned them. The candidates of an attack differ in one word, so only the parts that differ from
 * the text before are looked up.
 */

/** Characters of the cached parts. A part has about eight. */
const MAX_CACHED_CHARACTERS = 1 << 21;
/** V8 copies shorter slices. A longer one would keep the complete text in memory. */
const MIN_SLICE_LENGTH = 13;
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

/**
 * Creates an encoder. If `canSplit` is false, a text is one part. `encodeAscii` encodes simple
 * parts without the package.
 */
export function createPartEncoder(
  tokenizer: PackageTokenizer,
  canSplit: boolean,
  encodeAscii: AsciiEncoder,
): PartEncoder {
  const cache = new Map<string, readonly number[]>();
  let numCharacters = 0;

  function remember(part: string, ids: readonly number[]): void {
    numCharacters += part.length;
    cache.set(part.length < MIN_SLICE_LENGTH ? part : Buffer.from(part, "utf16le").toString("utf16le"), ids);
  }

  /** Returns the tokens of a part, or undefined if only the package knows them. */
  function find(part: string): readonly number[] | undefined {
    const known = cache.get(part);
    if (known !== undefined) return known;
    const ids = encodeAscii(part);
    if (ids === null) return undefined;
    remember(part, ids);
    return ids;
  }

  /** Encodes a text. Returns null if only the package knows some parts, and lists these. */
  function encodeText(
    { text, limit }: TextRequest,
    previous: EncodedParts | null,
    received: ReadonlyMap<string, readonly number[]>,
    missing: Set<string>,
  ): EncodedParts | null {
    const encoded = copySharedStart(previous, text);
    const { ids, starts, firstIds } = encoded;
    const shift = text.length - (previous?.text.length ?? 0);
    let shared = previous === null ? 0 : findSharedEnd(previous, text);
    let numMissing = 0;
    while (encoded.end < text.length && ids.length + numMissing < limit) {
      const start = encoded.end;
      if (previous !== null) {
        while (previous.starts[shared]! + shift < start) shared++;
        if (previous.starts[shared]! + shift === start) {
          appendSharedEnd(encoded, previous, shared, limit - numMissing);
          continue;
        }
      }
      encoded.end = canSplit ? findPartEnd(text, start) : text.length;
      const part = text.slice(start, encoded.end);
      const tokens = find(part) ?? received.get(part);
      starts.push(start);
      firstIds.push(ids.length);
      if (tokens === undefined) {
        missing.add(part);
        numMissing++;
      } else for (const id of tokens) ids.push(id);
    }
    return numMissing > 0 ? null : encoded;
  }

  /** Yields parts that only the package can encode, and receives their tokens. */
  function* encodeTexts(
    requests: readonly TextRequest[],
  ): Generator<readonly string[], number[][], readonly (readonly number[])[]> {
    const all: number[][] = new Array(requests.length);
    const received = new Map<string, readonly number[]>();
    let open = requests.map(({ text, limit }, index) => ({ index, request: { text: limitText(text), limit } }));
    let previous: EncodedParts | null = null;
    while (open.length > 0) {
      const missing = new Set<string>();
      open = open.filter(({ index, request }) => {
        const encoded = encodeText(request, previous, received, missing);
        if (encoded !== null) {
          all[index] = encoded.ids;
          previous = encoded;
        }
        return encoded === null;
      });
      if (missing.size === 0) break;
      const parts = [...missing];
      const tokens = yield parts;
      for (const [index, part] of parts.entries()) {
        received.set(part, tokens[index]!);
        remember(part, tokens[index]!);
      }
    }
    if (numCharacters > MAX_CACHED_CHARACTERS) {
      cache.clear();
      numCharacters = 0;
    }
    return all;
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
  if (text.length <= MAX_TEXT_LENGTH) return text.toWellFormed();
  const isPair = (text.codePointAt(MAX_TEXT_LENGTH - 1) ?? 0) > 0xffff;
  return text.slice(0, isPair ? MAX_TEXT_LENGTH - 1 : MAX_TEXT_LENGTH).toWellFormed();
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
