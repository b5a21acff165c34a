import { UserError } from "../base/errors.js";
import { sha256Hex } from "../base/sha256.js";
import type { Tokenizer } from "./encoding.js";
import type { PartOfSpeech } from "./part-of-speech.js";

/**
 * The maximum number of substitutes per word. With the word itself they fit ASCC's 10 candidates
 * per word.
 */
export const maxSubstitutes = 8;

/** The substitutes of each word. They define the attack space of training and attacks. */
export interface Substitutions {
  readonly name: string;
  /** SHA-256 of everything that determines the substitutes, for caches and journals. */
  readonly hash: string;
  /** True if the substitutes depend on the part of speech, so that texts must be tagged. */
  readonly usesPartOfSpeech: boolean;
  /** Returns substitutes, best first, in the letter case of the word, without the word itself. */
  getSubstitutes(word: string, partOfSpeech?: PartOfSpeech): readonly string[];
}

/**
 * Creates substitutions from an object that maps words to lists of words. `source` names it in
 * messages.
 */
export function parseSubstitutionTable(data: unknown, source: string): Substitutions {
  if (typeof data !== "object" || data === null || Array.isArray(data)) {
    throw new UserError(
      `${source}: expected an object that maps words to lists of words ({"good": ["great"]}), ` +
        `received ${formatValue(data)}.`,
    );
  }
  const table = new Map<string, readonly string[]>();
  for (const [key, list] of Object.entries(data)) {
    const substitutes = checkEntry(key, list, source);
    const word = key.toLowerCase();
    if (table.has(word))
      throw new UserError(`${source}: "${word}" occurs twice, in different letter case. Keep one, in lower case.`);
    table.set(
      word,
      [...new Set(substitutes)].filter((other) => other.toLowerCase() !== word),
    );
  }
  return {
    name: source,
    hash: hashTable(table),
    usesPartOfSpeech: false,
    getSubstitutes: (word) =>
      (table.get(word.toLowerCase()) ?? []).map((other) => matchCase(word, other)).filter((other) => other !== word),
  };
}

function checkEntry(key: string, list: unknown, source: string): readonly string[] {
  const entry = `${source}: ${JSON.stringify(key)}`;
  if (!Array.isArray(list) || list.some((item) => typeof item !== "string"))
    throw new UserError(`${entry}: expected a list of words, received ${formatValue(list)}.`);
  const substitutes = list as string[];
  if (substitutes.length > maxSubstitutes) {
    throw new UserError(
      `${entry}: expected at most ${maxSubstitutes} substitutes, received ${substitutes.length}. ` +
        `Keep the best ${maxSubstitutes}.`,
    );
  }
  const rule = "Expected one word without spaces, with a letter or a digit.";
  // Published tables have punctuation marks without substitutes as keys. Those are harmless unless
  // they have spaces.
  const isValidKey = substitutes.length === 0 ? !/^$|[ \t\r\n]/.test(key) : isWord(key);
  if (!isValidKey) throw new UserError(`${source}: the key ${JSON.stringify(key)} is not a word. ${rule}`);
  const invalid = substitutes.find((word) => !isWord(word));
  if (invalid !== undefined) throw new UserError(`${entry}: ${JSON.stringify(invalid)} is not a word. ${rule}`);
  return substitutes;
}

function isWord(text: string): boolean {
  return /[\p{L}\p{N}]/u.test(text) && !/\s/.test(text);
}

function formatValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

/** The hash depends on the order of the substitutes, but not on the order of the keys. */
function hashTable(table: ReadonlyMap<string, readonly string[]>): string {
  const words = [...table.keys()].sort();
  return sha256Hex(words.map((word) => `${JSON.stringify([word, table.get(word)])}\n`).join(""));
}

/**
 * Removes the substitutes that the word-level encoding of a model maps to [UNK]. Such a substitute
 * deletes the word instead of paraphrasing it. For BERT this is every fourth substitute of the
 * counter-fitted table.
 */
export function filterInVocabSubstitutes(table: Substitutions, tokenizer: Tokenizer): Substitutions {
  return {
    name: `${table.name}, in-vocabulary words only`,
    hash: sha256Hex(`${table.hash} known to ${tokenizer.hash}`),
    usesPartOfSpeech: table.usesPartOfSpeech,
    getSubstitutes: (word, partOfSpeech) =>
      table.getSubstitutes(word, partOfSpeech).filter((other) => tokenizer.wordToId(other) !== tokenizer.special.unkId),
  };
}

/**
 * Looks up words as they are written. Tables have words in lower case, so a word with a capital
 * letter has no substitutes, as in RIFT's released training code and PWWS attack.
 */
export function matchCaseSensitively(table: Substitutions): Substitutions {
  return {
    name: `${table.name}, case-sensitive`,
    hash: sha256Hex(`${table.hash} case-sensitive`),
    usesPartOfSpeech: table.usesPartOfSpeech,
    getSubstitutes: (word, partOfSpeech) =>
      word === word.toLowerCase() ? table.getSubstitutes(word, partOfSpeech) : [],
  };
}

/**
 * Applies the letter case of `pattern` to `word`: Good -> Great, GOOD -> GREAT. Mixed case (iPhone)
 * has no effect.
 */
export function matchCase(pattern: string, word: string): string {
  if (pattern === pattern.toLowerCase()) return word;
  const [first = "", ...rest] = pattern;
  const tail = rest.join("");
  if (first !== first.toUpperCase()) return word;
  // A single capital letter ("A", "I") does not tell the case of further letters.
  if (tail !== "" && tail === tail.toUpperCase() && tail !== tail.toLowerCase()) return word.toUpperCase();
  return tail === tail.toLowerCase() ? capitalize(word) : word;
}

function capitalize(word: string): string {
  const [first = "", ...rest] = word;
  return first.toUpperCase() + rest.join("");
}
