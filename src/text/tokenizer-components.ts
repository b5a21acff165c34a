import { z } from "zod";
import { validate } from "../base/validate.js";
import { checkCharsmap } from "./charsmap.js";
import { isKnownPattern } from "./known-patterns.js";

/**
 * The normalizers and pre-tokenizers of tokenizer.json. The package trusts its input: an option
 * that it does not expect can end the process. Everything is therefore checked here first.
 */

/** Sequences inside sequences, at most this deep. */
const MAX_DEPTH = 4;
const MAX_PATTERN_LENGTH = 2000;
const flag = z.boolean();
const text = z.string().max(1000);

/** A search pattern. An empty one matches everywhere. */
const pattern = z.union([
  z.strictObject({ String: z.string().min(1).max(MAX_PATTERN_LENGTH) }),
  z.strictObject({
    Regex: z.string().refine(isKnownPattern, {
      error: "expected a regular expression of a known family, because another one can end the process on some texts",
    }),
  }),
]);
const behavior = z.enum(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]);
const character = z.string().refine((value) => [...value].length === 1, { error: "expected one character" });

const metaspace = z.looseObject({
  type: z.literal("Metaspace"),
  replacement: character,
  prepend_scheme: z.enum(["first", "never", "always"]).optional(),
  add_prefix_space: flag.optional(),
  split: flag.optional(),
});

const normalizer = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("BertNormalizer"),
    clean_text: flag.default(true),
    handle_chinese_chars: flag.default(true),
    strip_accents: flag.nullish(),
    lowercase: flag.default(true),
  }),
  z.looseObject({ type: z.literal("Strip"), strip_left: flag, strip_right: flag }),
  z.looseObject({ type: z.literal("Prepend"), prepend: text }),
  z.looseObject({ type: z.literal("Replace"), pattern, content: text }),
  z.looseObject({
    type: z.literal("Precompiled"),
    precompiled_charsmap: z.string().superRefine((value, context) => {
      const problem = checkCharsmap(Buffer.from(value, "base64"));
      if (problem !== null) context.addIssue({ code: "custom", message: problem });
    }),
  }),
  z.looseObject({
    type: z.enum(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"]),
  }),
]);

const preTokenizer = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("ByteLevel"),
    add_prefix_space: flag.default(true),
    trim_offsets: flag.default(true),
    use_regex: flag.default(true),
  }),
  metaspace,
  z.looseObject({ type: z.enum(["BertPreTokenizer", "Whitespace", "WhitespaceSplit", "UnicodeScripts"]) }),
  z.looseObject({ type: z.literal("CharDelimiterSplit"), delimiter: character }),
  z.looseObject({ type: z.literal("Split"), pattern, behavior, invert: flag.default(false) }),
  z.looseObject({ type: z.literal("Punctuation"), behavior: behavior.default("Isolated") }),
  z.looseObject({ type: z.literal("Digits"), individual_digits: flag.default(false) }),
  z.looseObject({ type: z.literal("FixedLength"), length: z.int().min(1).max(100_000).default(5) }),
]);

export type Normalizer = z.output<typeof normalizer>;
export type PreTokenizer = z.output<typeof preTokenizer>;

/** Flattens nothing, one component, or a sequence of components into a list. */
function flatten(value: unknown, key: string, depth = 0): unknown[] {
  if (value === null || value === undefined) return [];
  const parts = (value as Record<string, unknown>)[key];
  const isSequence = (value as { type?: unknown }).type === "Sequence" && Array.isArray(parts);
  return isSequence && depth < MAX_DEPTH ? parts.flatMap((part) => flatten(part, key, depth + 1)) : [value];
}

export function readNormalizers(value: unknown, location: string): Normalizer[] {
  return flatten(value, "normalizers").map((part) => validate(normalizer, part, location));
}

export function readPreTokenizers(value: unknown, location: string): PreTokenizer[] {
  return flatten(value, "pretokenizers").map((part) => validate(preTokenizer, part, location));
}

/** Writes a list as one component. */
export function toSequence(type: "normalizers" | "pretokenizers", parts: readonly object[]): object | null {
  return parts.length === 0 ? null : parts.length === 1 ? parts[0]! : { type: "Sequence", [type]: parts };
}
