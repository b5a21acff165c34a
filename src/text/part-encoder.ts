import { createAsciiEncoder } from "./ascii-encoder.js";
import type { PreTokenizer } from "./tokenizer-components.js";
import type { TokenizerFile } from "./tokenizer-file.js";
import type { PackageTokenizer } from "./tokenizer-worker.js";

/**
 * A call of the package takes about as long as the tokenization of a hundred words. Texts are
 * therefore split into parts at spaces, and the tokens of each part are cached, as the package
 * returned them.
 */

/** Characters of the cached parts. A part has about eight. */
const maxCachedCharacters = 1 << 21;
/** V8 copies shorter slices. A longer one would keep the complete text in memory. */
const minSliceLength = 13;
/** Texts that are tokenized together, and their characters. More would need more memory. */
const maxGroupTexts = 1024;
const maxGroupCharacters = 1 << 20;

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
export type PartEncoder = (requests: readonly TextRequest[]) => number[][];

/** Creates an encoder. If texts cannot be split at spaces, each is one part. */
export function createPartEncoder(tokenizer: PackageTokenizer, file: TokenizerFile): PartEncoder {
  const canSplit = canSplitAtSpaces(file);
  const encodeAscii = createAsciiEncoder(file);
  const cache = new Map<string, readonly number[]>();
  let numCharacters = 0;

  function remember(part: string, ids: readonly number[]): readonly number[] {
    numCharacters += part.length;
    cache.set(part.length < minSliceLength ? part : Buffer.from(part, "utf16le").toString("utf16le"), ids);
    return ids;
  }

  /** Returns the tokens of a part, or null if only the package knows them. */
  function find(part: string): readonly number[] | null {
    const known = cache.get(part);
    if (known !== undefined) return known;
    const ids = encodeAscii(part);
    return ids && remember(part, ids);
  }

  /** Encodes a text. Returns null if only the package knows some parts, and lists these. */
  function encodeText({ text, limit }: TextRequest, missing: Set<string>): number[] | null {
    const ids: number[] = [];
    let numMissing = 0;
    for (let start = 0, end = 0; start < text.length && ids.length + numMissing < limit; start = end) {
      end = canSplit ? findPartEnd(text, start) : text.length;
      const part = text.slice(start, end);
      const tokens = find(part);
      if (tokens === null) {
        missing.add(part);
        numMissing++;
      } else for (const id of tokens) ids.push(id);
    }
    return numMissing > 0 ? null : ids;
  }

  /** Encodes texts. The package encodes all the parts that only it knows at once. */
  function encodeGroup(requests: readonly TextRequest[]): number[][] {
    if (numCharacters > maxCachedCharacters) {
      cache.clear();
      numCharacters = 0;
    }
    const all: (number[] | null)[] = requests.map(() => null);
    for (;;) {
      const missing = new Set<string>();
      for (const [index, request] of requests.entries()) all[index] ??= encodeText(request, missing);
      if (missing.size === 0) return all as number[][];
      const parts = [...missing];
      for (const [index, { ids }] of tokenizer(parts).entries()) remember(parts[index]!, ids);
    }
  }

  return (requests) => groupRequests(requests).flatMap(encodeGroup);
}

function groupRequests(requests: readonly TextRequest[]): TextRequest[][] {
  const groups: TextRequest[][] = [];
  let numCharacters = Number.POSITIVE_INFINITY;
  for (const { text, limit } of requests) {
    const request = { text: limitText(text), limit };
    numCharacters += request.text.length;
    if (numCharacters > maxGroupCharacters || groups.at(-1)?.length === maxGroupTexts) {
      groups.push([]);
      numCharacters = request.text.length;
    }
    groups.at(-1)!.push(request);
  }
  return groups;
}

/** Replaces lone surrogates, which cannot be written in UTF-8, and truncates very long texts. */
export function limitText(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text.toWellFormed();
  const isPair = (text.codePointAt(MAX_TEXT_LENGTH - 1) ?? 0) > 0xffff;
  return text.slice(0, isPair ? MAX_TEXT_LENGTH - 1 : MAX_TEXT_LENGTH).toWellFormed();
}

/**
 * Finds the next single space between two visible characters of the Latin, Greek or Cyrillic
 * alphabets. They do not combine with their neighbors, so a text can be split there.
 */
export function findPartEnd(text: string, start: number): number {
  for (let space = text.indexOf(" ", start + 1); space !== -1; space = text.indexOf(" ", space + 1)) {
    if (isPlain(text.charCodeAt(space - 1)) && isPlain(text.charCodeAt(space + 1))) return space;
  }
  return text.length;
}

export function isPlain(code: number): boolean {
  if (code < 0x7f) return code > 0x20;
  return (code >= 0xc0 && code <= 0x2af) || (code >= 0x386 && code <= 0x482) || (code >= 0x48a && code <= 0x52f);
}

/** Normalizers that change only single characters and their combining marks. */
const localNormalizers = new Set(["BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]);

/** Patterns of `Replace` that cannot match across a single space between two visible characters. */
const localPatterns = new Set([" {2,}", "\\s{2,}|[\\n\\r\\t]", "``", "''"]);

/**
 * Checks whether the tokens of a text are those of its parts, if it is split at single spaces. If a
 * component is not known to allow it, texts are tokenized as a whole.
 */
export function canSplitAtSpaces({ addedTokens, normalizers, preTokenizers }: TokenizerFile): boolean {
  // Added tokens that contain or consume white space must be searched in the complete text. A run
  // of spaces cannot match a single one.
  if (addedTokens.some(({ content, rstrip }) => rstrip || (/\s/.test(content) && !/^ {2,}$/.test(content))))
    return false;
  const types = preTokenizers.map(({ type }) => type);
  const dropsSpaces = types.some((type) => type === "BertPreTokenizer" || type.startsWith("Whitespace"));
  const marksSpaces = preTokenizers.some((item) => item.type === "Metaspace" && prependsAlways(item));
  const isMarked = dropsSpaces || marksSpaces;
  const isKnown = preTokenizers.every((item) => {
    if (item.type === "ByteLevel") return item.use_regex && types.length === 1;
    if (item.type === "Metaspace") return prependsAlways(item);
    return item.type === "BertPreTokenizer" || item.type.startsWith("Whitespace");
  });
  const areLocal = normalizers.every((item) => {
    // These can change white space. That has no effect if every word is marked in the same way.
    if (item.type === "Strip" || item.type === "Precompiled") return isMarked;
    if (item.type !== "Replace") return localNormalizers.has(item.type);
    return isMarked && localPatterns.has("String" in item.pattern ? item.pattern.String : item.pattern.Regex);
  });
  return types.length > 0 && isKnown && areLocal;
}

function prependsAlways(item: Extract<PreTokenizer, { type: "Metaspace" }>): boolean {
  const scheme = item.prepend_scheme ?? (item.add_prefix_space === false ? "never" : "always");
  return scheme === "always" && item.split !== false;
}
