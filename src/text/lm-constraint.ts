import { createHash } from "node:crypto";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { readJson } from "../base/files.js";
import { validate } from "../base/validate.js";
import type { WordRange } from "./find-words.js";

/**
 * Substitutes that a language model finds likely in their context. They are precomputed and stored
 * in a file.
 */
export interface LmConstraint {
  readonly name: string;
  readonly hash: string;
  readonly size: number;
  covers(text: string): boolean;
  /**
   * Returns the allowed lowercase substitutes of some words of a text, or undefined if the file does
   * not contain the text.
   */
  getAllowedSubstitutes(text: string, words: readonly WordRange[]): (readonly string[])[] | undefined;
}

const lmConstraintSchema = z.record(
  z.string(),
  z.record(z.string().regex(/^\d+$/, "expected the position of a word"), z.array(z.string())),
);

/**
 * Loads a file that maps lowercase texts, split by spaces, to positions, and positions to allowed
 * substitutes.
 */
export async function loadLmConstraint(path: string): Promise<LmConstraint> {
  const data = validate(lmConstraintSchema, await readJson(path, "the language-model constraint"), path);
  const texts = Object.keys(data);
  for (const text of texts) checkPositions(text, data[text]!, path);
  const byKey = new Map(texts.map((text) => [toTextKey(text), text]));
  return {
    name: path,
    hash: createHash("sha256").update(JSON.stringify(data)).digest("hex"),
    size: texts.length,
    covers: (text) => byKey.has(toTextKey(text)),
    getAllowedSubstitutes(text, words) {
      const found = byKey.get(toTextKey(text));
      return found === undefined ? undefined : alignSubstitutes(found, data[found]!, text, words);
    },
  };
}

function checkPositions(text: string, substitutes: Readonly<Record<string, string[]>>, path: string): void {
  const count = text.split(" ").length;
  const invalid = Object.keys(substitutes).find((position) => Number(position) >= count);
  if (invalid === undefined) return;
  throw new UserError(
    `${path}: "${text.slice(0, 60)}…": position ${invalid} is out of range; the text has ${count} words. ` +
      "Create the file from the same texts.",
  );
}

/**
 * Tokenizers differ in word boundaries and line breaks, but not in the letters. So only letters are
 * compared.
 */
function toTextKey(text: string): string {
  return text
    .toLowerCase()
    .replace(/<br\s*\/?>/g, "")
    .replace(/\s+/g, "");
}

/**
 * Aligns words with the tokens of the file by their characters. A word that is split differently
 * has no substitutes.
 */
function alignSubstitutes(
  stored: string,
  substitutes: Readonly<Record<string, string[]>>,
  text: string,
  words: readonly WordRange[],
): (readonly string[])[] {
  const tokenAt = new Map<number, number>();
  const tokens = stored.split(" ");
  let end = 0;
  tokens.forEach((token, i) => {
    tokenAt.set(end, i);
    end += token.length;
  });
  return words.map((word) => {
    const token = tokenAt.get(toTextKey(text.slice(0, word.start)).length);
    const isSame = token !== undefined && tokens[token] === text.slice(word.start, word.end).toLowerCase();
    return isSame ? (substitutes[token] ?? []) : [];
  });
}
