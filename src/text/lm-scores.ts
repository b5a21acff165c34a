import { createReadStream } from "node:fs";
import { UserError } from "../base/errors.js";
import { readLines } from "./read-inputs.js";

/** A place in a file: the number of bytes and lines before it. */
export interface FilePosition {
  readonly bytes: number;
  readonly lines: number;
}

/** The log-probabilities of one text with each substitute, by position and word. */
export interface LmScores {
  /** Lowercase words, separated by spaces. */
  readonly text: string;
  readonly scores: ReadonlyMap<number, ReadonlyMap<string, number>>;
  /** The end of this text in the file, where reading can continue. */
  readonly end: FilePosition;
}

/**
 * Reads the language-model scores that were released for the genetic attack (Jia et al. 2019). A
 * line with two fields starts a text: number and text. A line with four fields is a score: number,
 * position, word and log-probability. Fields are separated by tabs.
 */
export async function* readLmScores(
  path: string,
  start: FilePosition = { bytes: 0, lines: 0 },
): AsyncGenerator<LmScores> {
  let current: { text: string; scores: Map<number, Map<string, number>> } | null = null;
  let wordCount: number | null = null;
  let end = start;
  for await (const { line, text, bytes } of readLines(path, createReadStream(path, { start: start.bytes }))) {
    const fields = text.split("\t");
    if (fields.length === 2) {
      if (current) yield { ...current, end };
      current = { text: fields[1]!.toLowerCase(), scores: new Map() };
      wordCount = current.text.split(" ").length;
    } else if (text.trim() !== "") {
      const { position, word, score } = parseScore(path, start.lines + line, fields, wordCount);
      const words = current!.scores.get(position) ?? new Map<string, number>();
      current!.scores.set(position, words.set(word, score));
    }
    end = { bytes: start.bytes + bytes, lines: start.lines + line };
  }
  if (current === null)
    throw new UserError(`${path}: no text found. Expected lines with "NUMBER<tab>TEXT" and scores below them.`);
  yield { ...current, end };
}

function parseScore(
  path: string,
  line: number,
  fields: readonly string[],
  wordCount: number | null,
): { position: number; word: string; score: number } {
  const fail = (expected: string): never => {
    throw new UserError(`${path}:${line}: ${expected}, received ${JSON.stringify(fields.join("\t").slice(0, 60))}.`);
  };
  if (wordCount === null) fail('expected "NUMBER<tab>TEXT" before the first score');
  if (fields.length !== 4) fail('expected "NUMBER<tab>POSITION<tab>WORD<tab>SCORE"');
  const [, position = "", word = "", value = ""] = fields;
  // A word that the language model does not know has the score -inf.
  const score = value === "-inf" ? Number.NEGATIVE_INFINITY : Number(value);
  if (value.trim() === "" || Number.isNaN(score)) fail("expected a log-probability at the end");
  if (!/^\d+$/.test(position) || Number(position) >= wordCount!) fail("expected a position within the text");
  return { position: Number(position), word: word.toLowerCase(), score };
}

/**
 * Lists the substitutes per position that the language model finds likely enough: log P(text with
 * the substitute) - log P(text) >= `minDifference`. Positions without scores have none.
 */
export function selectLikelySubstitutes(
  { text, scores }: Pick<LmScores, "text" | "scores">,
  minDifference: number,
): Record<string, string[]> {
  return Object.fromEntries(
    text.split(" ").map((word, position) => {
      const options = scores.get(position) ?? new Map<string, number>();
      const original = options.get(word) ?? Number.NaN;
      const likely = [...options].filter(([other, score]) => other !== word && score - original >= minDifference);
      return [String(position), likely.map(([other]) => other)];
    }),
  );
}
