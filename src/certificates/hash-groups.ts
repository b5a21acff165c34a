import type { TextFields } from "./scoring.js";
import { splitFields } from "./words.js";

/**
 * The hash that assigns words to groups. Increase it if `hashWord` changes: models depend on it.
 */
export const wordHashVersion = 1;

/** How the words of a text are distributed over groups. */
export interface GroupOptions {
  /** The number of groups, m. */
  readonly groups: number;
  /** Selects one of many hash functions. */
  readonly hashSeed: number;
  /** The fields whose words are distributed; the other fields are part of every sub-text. */
  readonly editableFields?: readonly number[] | undefined;
}

/**
 * The group of a word: a hash of the word alone, never of its position, so that an edit elsewhere
 * cannot move it. The word is normalized first (NFKC, lower case). The hash is FNV-1a with 32 bits
 * over the UTF-8 bytes of `SEED:WORD`, followed by the final mixing step of MurmurHash3, because
 * the low bits of FNV-1a alone depend on too few bits of the word.
 */
export function assignGroup(word: string, { groups, hashSeed }: GroupOptions): number {
  return hashWord(`${hashSeed}:${word.normalize("NFKC").toLowerCase()}`) % groups;
}

function hashWord(text: string): number {
  let hash = 0x811c9dc5;
  const bytes = Buffer.from(text, "utf8");
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * Splits a text into one sub-text per group. The words of a group keep their order. An empty group
 * is null. The complete text is split; the tokenizer truncates each sub-text afterwards. If the
 * text were truncated first, one inserted word could push out a word of every other group.
 */
export function splitIntoGroups(texts: TextFields, options: GroupOptions): (TextFields | null)[] {
  const { words } = splitFields(texts, options.editableFields);
  const parts = Array.from({ length: options.groups }, (): (string[] | null)[] | null => null);
  for (const [field, list] of words.entries())
    for (const word of list ?? []) {
      const group = assignGroup(word, options);
      parts[group] ??= words.map((editable) => editable && []);
      parts[group][field]!.push(word);
    }
  return parts.map((part) => part?.map((list, field) => list?.join(" ") ?? texts[field]!) ?? null);
}
