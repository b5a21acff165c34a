import { createHash } from "node:crypto";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import { matchCase } from "./letter-case.js";
import type { PartOfSpeech } from "./part-of-speech.js";

/** The most substitutes a word may have: with the word itself they fit the 10 slots of the convex-hull adversary. */
export const maxSubstitutes = 8;

/** Which words may stand for a word: the attack space of training and attacks alike. */
export interface Substitutions {
  readonly name: string;
  /** SHA-256 of what decides the answers, for caches and journals. */
  readonly hash: string;
  /** True where the part of speech changes the answer, so that tagging the text is worth its time. */
  readonly usesPartOfSpeech: boolean;
  /** At most 8 substitutes, best first, in the word's own case, never the word itself; none where nothing is known. */
  getSubstitutes(word: string, partOfSpeech?: PartOfSpeech): readonly string[];
}

/** Opens a substitution set: WordNet's synonyms, or a JSON table (word -> list of words) at a path. */
export async function loadSubstitutions(spec: string): Promise<Substitutions> {
  if (spec === "wordnet") return (await import("./wordnet.js")).loadWordNet();
  if (!spec.toLowerCase().endsWith(".json")) {
    throw new UserError(
      `substitutions: expected "wordnet" or the path of a .json table (word -> list of words), received "${spec}"`,
    );
  }
  return parseSubstitutionTable(await readJson(spec, "the substitution table"), spec);
}

/** Checks a table (word -> list of words) and makes a substitution set of it; `where` names it in messages. */
export function parseSubstitutionTable(data: unknown, where: string): Substitutions {
  if (typeof data !== "object" || data === null || Array.isArray(data)) {
    throw new UserError(
      `${where}: expected an object of words, each with a list of words ({"good": ["great"]}), received ${describeValue(data)}`,
    );
  }
  const table = new Map<string, readonly string[]>();
  for (const [key, list] of Object.entries(data)) {
    const substitutes = checkEntry(key, list, where);
    const word = key.toLowerCase();
    if (table.has(word))
      throw new UserError(`${where}: "${word}" is there twice, in different letter case; keep one, in lower case`);
    table.set(
      word,
      [...new Set(substitutes)].filter((other) => other.toLowerCase() !== word),
    );
  }
  return {
    name: where,
    hash: hashTable(table),
    usesPartOfSpeech: false,
    getSubstitutes: (word) =>
      (table.get(word.toLowerCase()) ?? []).map((other) => matchCase(word, other)).filter((other) => other !== word),
  };
}

function checkEntry(key: string, list: unknown, where: string): readonly string[] {
  if (!Array.isArray(list) || list.some((item) => typeof item !== "string")) {
    throw new UserError(`${where}: "${key}": expected a list of words, received ${describeValue(list)}`);
  }
  const substitutes = list as string[];
  if (substitutes.length > maxSubstitutes) {
    throw new UserError(
      `${where}: "${key}": expected at most ${maxSubstitutes} substitutes (they and the word share 10 slots), received ${substitutes.length}; keep the best ${maxSubstitutes}`,
    );
  }
  // A key without substitutes does nothing: only a plain space in it shows a mistake. Published tables hold lone punctuation there.
  const isWrong = substitutes.length === 0 ? /^$|[ \t\r\n]/.test(key) : !isWord(key);
  if (isWrong)
    throw new UserError(
      `${where}: the key ${JSON.stringify(key)} is no word: expected one word without spaces, with a letter or a digit`,
    );
  const wrong = substitutes.find((word) => !isWord(word));
  if (wrong !== undefined) {
    throw new UserError(
      `${where}: "${key}": ${JSON.stringify(wrong)} is no word: expected one word without spaces, with a letter or a digit`,
    );
  }
  return substitutes;
}

function isWord(text: string): boolean {
  return /[\p{L}\p{N}]/u.test(text) && !/\s/.test(text);
}

function describeValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

/** The order of the keys does not matter, the order of a word's substitutes does. */
function hashTable(table: ReadonlyMap<string, readonly string[]>): string {
  const hash = createHash("sha256");
  for (const word of [...table.keys()].sort()) hash.update(`${JSON.stringify([word, table.get(word)])}\n`);
  return hash.digest("hex");
}
