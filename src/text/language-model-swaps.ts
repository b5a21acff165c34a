import { createHash } from "node:crypto";
import { z } from "zod";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import { validate } from "../validate.js";

/** Swaps that a language model finds likely enough in their context, computed before and kept in a file. */
export interface LmConstraint {
  readonly name: string;
  /** SHA-256 of the file's content. */
  readonly hash: string;
  /** How many texts it covers. */
  readonly size: number;
  /** The lower-case swaps allowed for each of the first words of a text; undefined where the text is not covered. */
  getAllowedSubstitutes(text: string, words: readonly string[]): readonly (readonly string[])[] | undefined;
}

const lmConstraintSchema = z.record(
  z.string(),
  z.record(z.string().regex(/^\d+$/, "expected a word's position"), z.array(z.string())),
);

/** Reads a swaps file: lower-cased text, cut into words by spaces -> position -> allowed swaps. */
export async function loadLmConstraint(path: string): Promise<LmConstraint> {
  const data = validate(lmConstraintSchema, await readJson(path, "the language-model swaps"), path);
  const texts = Object.keys(data);
  for (const text of texts) checkPositions(text, data[text]!, path);
  const byContent = new Map(texts.map((text) => [toTextKey(text), text]));
  return {
    name: path,
    hash: createHash("sha256").update(JSON.stringify(data)).digest("hex"),
    size: texts.length,
    getAllowedSubstitutes(text, words) {
      const key = byContent.get(toTextKey(text));
      return key === undefined ? undefined : alignSubstitutes(key, data[key]!, words);
    },
  };
}

function checkPositions(text: string, swaps: Readonly<Record<string, string[]>>, path: string): void {
  const count = text.split(" ").length;
  const wrong = Object.keys(swaps).find((position) => Number(position) >= count);
  if (wrong === undefined) return;
  throw new UserError(
    `${path}: "${text.slice(0, 60)}…": position ${wrong} is past its ${count} words; the file must come from the same text`,
  );
}

/** Tokenizers disagree on where words end and how line breaks are written, never on the letters: these make the key. */
function toTextKey(text: string): string {
  return text
    .toLowerCase()
    .replace(/<br\s*\/?>/g, "")
    .replace(/\s+/g, "");
}

/** Finds each word in the file's own cutting by its characters; a word that is cut otherwise there has no swaps. */
function alignSubstitutes(
  text: string,
  swaps: Readonly<Record<string, string[]>>,
  words: readonly string[],
): readonly (readonly string[])[] {
  const tokenAt = new Map<number, number>();
  const tokens = text.split(" ");
  let end = 0;
  tokens.forEach((token, i) => {
    tokenAt.set(end, i);
    end += token.length;
  });
  const letters = tokens.join("");
  let offset = 0;
  return words.map((word) => {
    const lower = word.toLowerCase();
    // Left-over markup is in the words but not in the file: it takes no characters there.
    if (!letters.startsWith(lower, offset)) return [];
    const token = tokenAt.get(offset);
    offset += lower.length;
    return token !== undefined && tokens[token] === lower ? (swaps[token] ?? []) : [];
  });
}
