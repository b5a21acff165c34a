import type { TextFields } from "./scoring.js";
import { getWords } from "./words.js";

/**
 * The hash that assigns words to groups. Increase it if `hashWord` changes: models depend on it.
 */
export const wordHashVersion = 1;

/** The distribution of a text's words over groups. */
export interface GroupOptions {
  /** The number of groups, m, or "words": each distinct word is a group of its own. */
  readonly groups: number | "words";
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
export function assignGroup(
  word: string,
  { groups, hashSeed }: { readonly groups: number; readonly hashSeed: number },
): number {
  return hashWord(`${hashSeed}:${normalizeWord(word)}`) % groups;
}

function normalizeWord(word: string): string {
  return word.normalize("NFKC").toLowerCase();
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
 *
 * If each word is a group, its sub-text is the normalized word, once. So another copy of the word
 * changes nothing, and an inserted word never joins the group of another one.
 */
export function splitIntoGroups(
  texts: TextFields,
  { groups, hashSeed, editableFields }: GroupOptions,
): (TextFields | null)[] {
  // Fields that nobody may edit stay as they are.
  const words = texts.map((text, field) => (editableFields?.includes(field) === false ? null : getWords(text)));
  const parts = new Map<string | number, (string[] | null)[]>();
  for (const [field, list] of words.entries())
    for (const word of list ?? []) {
      const own = groups === "words" ? normalizeWord(word) : null;
      const group = groups === "words" ? `${field} ${own}` : assignGroup(word, { groups, hashSeed });
      const part = parts.get(group) ?? words.map((editable) => editable && []);
      if (own === null) part[field]!.push(word);
      else part[field] = [own];
      parts.set(group, part);
    }
  const keys = groups === "words" ? [...parts.keys()] : Array.from({ length: groups }, (_, group) => group);
  return keys.map((key) => parts.get(key)?.map((list, field) => list?.join(" ") ?? texts[field]!) ?? null);
}
