import type { Encoding, TextComposer } from "./encoding.js";
import type { WordPlace } from "./find-words.js";
import { findPartEnd, isPlain, MAX_TEXT_LENGTH } from "./part-encoder.js";

/** A part of a text, from one space to the next one at which it can be split. */
interface TextPart {
  readonly field: number;
  readonly start: number;
  readonly end: number;
  /** Its tokens as it is, once they were needed. */
  tokens: readonly number[] | null;
}

/** A tokenizer that encodes texts by their parts. */
export interface PartRules {
  /** The tokens of a part. The tokens of a text are those of its parts. */
  encodePart(part: string): readonly number[];
  /** The input of a model, from the tokens of each text. Tokens after `maxTokens` of a single text are not needed. */
  build(tokens: readonly (readonly number[])[], allocate: (length: number) => Int32Array): Encoding;
  readonly maxTokens: number;
}

/** Longer texts are truncated by their characters. */
const maxTextLength = MAX_TEXT_LENGTH / 2;

/**
 * Prepares to encode versions of a text whose words have these places. Null if a word has spaces, or
 * if the text is very long.
 */
export function createTextComposer(
  texts: readonly string[],
  places: readonly WordPlace[],
  { encodePart, build, maxTokens }: PartRules,
): TextComposer | null {
  if (texts.some((text) => text.length > maxTextLength)) return null;
  const parts = texts.map(splitIntoParts);
  const partAt = findParts(parts, places);
  if (partAt.some((part, position) => part.start > places[position]!.start)) return null;

  /** The part with new words at the positions from `from` to `to`; null if it cannot be split off then. */
  function encodeChanged(
    part: TextPart,
    positions: readonly number[],
    words: readonly string[],
    from: number,
    to: number,
  ) {
    const text = texts[part.field]!;
    let [changed, end] = ["", part.start];
    for (let i = from; i < to; i++) {
      const place = places[positions[i]!]!;
      changed += text.slice(end, place.start) + words[i]!;
      end = place.end;
    }
    changed += text.slice(end, part.end);
    const isFirst = part.start === 0;
    const isSplit =
      (isFirst || isPlain(changed.charCodeAt(1))) &&
      (part.end === text.length ||
        (changed.length > Number(!isFirst) && isPlain(changed.charCodeAt(changed.length - 1))));
    return isSplit ? encodePart(changed) : null;
  }

  /** The tokens of each text, in arrays that the next call writes again. */
  const all = texts.map((): number[] => []);
  return (positions, words) => {
    let next = 0;
    for (let field = 0; field < parts.length; field++) {
      const tokens = all[field]!;
      let count = 0;
      for (const part of parts[field]!) {
        if (count >= maxTokens) break;
        const from = next;
        while (next < positions.length && partAt[positions[next]!] === part) next++;
        let own: readonly number[] | null;
        if (from === next) {
          part.tokens ??= encodePart(texts[part.field]!.slice(part.start, part.end));
          own = part.tokens;
        } else own = encodeChanged(part, positions, words, from, next);
        if (own === null) return null;
        for (let i = 0; i < own.length; i++) tokens[count++] = own[i]!;
      }
      tokens.length = count;
    }
    return build(all, allocate);
  };
}

/** Token IDs of many candidates are in one buffer: a buffer per candidate would take longer than its tokens. */
const bufferSize = 1 << 16;
let [buffer, used] = [new Int32Array(0), 0];

function allocate(length: number): Int32Array {
  if (used + length > buffer.length) [buffer, used] = [new Int32Array(Math.max(bufferSize, length)), 0];
  used += length;
  return buffer.subarray(used - length, used);
}

/** Parts whose tokens are kept. Substitutes return in many texts. */
const maxKnownParts = 50_000;

/** Remembers the tokens of parts. */
export function rememberParts(encodePart: PartRules["encodePart"]): PartRules["encodePart"] {
  const known = new Map<string, readonly number[]>();
  return (part) => {
    let tokens = known.get(part);
    if (tokens) return tokens;
    tokens = encodePart(part);
    if (known.size === maxKnownParts) known.clear();
    known.set(part, tokens);
    return tokens;
  };
}

function splitIntoParts(text: string, field: number): TextPart[] {
  const parts: TextPart[] = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    end = findPartEnd(text, start);
    parts.push({ field, start, end, tokens: null });
  }
  return parts;
}

/** The part of each word. */
function findParts(parts: readonly (readonly TextPart[])[], places: readonly WordPlace[]): TextPart[] {
  let [field, next] = [0, 0];
  return places.map((place) => {
    if (place.field !== field) [field, next] = [place.field, 0];
    while (parts[field]![next]!.end < place.end) next++;
    return parts[field]![next]!;
  });
}
