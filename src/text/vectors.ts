import { stat } from "node:fs/promises";
import { UserError } from "../base/errors.js";
import { createFileError } from "../base/files.js";
import { readLines } from "./read-inputs.js";

/** Word vectors, one row per word. */
export interface WordVectors {
  readonly words: readonly string[];
  readonly dimension: number;
  /** Rows of `dimension` numbers. */
  readonly values: Float32Array;
}

/** A reading of a file: which words to keep, and how far it is. */
interface ReadVectorsOptions {
  /** Keep only these lowercase words. Default: all. */
  readonly vocabulary?: ReadonlySet<string> | undefined;
  onProgress?(doneBytes: number, totalBytes: number): void;
}

/**
 * Reads vectors in the text format of GloVe and of the counter-fitted vectors: a word and its
 * numbers per line. The first line may have the number of words and of dimensions (word2vec). Of
 * two spellings in different letter case the first one counts, because tables are lowercase.
 */
export async function readWordVectors(path: string, options: ReadVectorsOptions = {}): Promise<WordVectors> {
  const { vocabulary, onProgress } = options;
  const { size } = await stat(path).catch((error: unknown) => {
    throw createFileError(error, path, "read the vectors");
  });
  const rows = new Map<string, Float32Array>();
  let dimension = 0;
  let bytes = 0;
  for await (const { line, text } of readLines(path)) {
    bytes += Buffer.byteLength(text) + 1;
    if (line % 1000 === 0) onProgress?.(Math.min(bytes, size), size);
    const fields = text.trimEnd().split(" ");
    if (text.trim() === "" || (line === 1 && fields.length === 2)) continue;
    dimension ||= fields.length - 1;
    const word = fields[0]!.toLowerCase();
    if (fields.length - 1 !== dimension || dimension === 0)
      throw createLineError(path, line, `expected a word and ${dimension || "its"} numbers`, text);
    if (!isSubstitutable(word) || rows.has(word) || vocabulary?.has(word) === false) continue;
    const row = Float32Array.from(fields.slice(1), Number);
    if (row.some((value) => !Number.isFinite(value)))
      throw createLineError(path, line, "expected finite numbers", text);
    rows.set(word, row);
  }
  onProgress?.(size, size);
  if (rows.size < 2)
    throw new UserError(
      `${path}: found ${rows.size} of the words. Expected a text file with a word and its numbers per line.`,
    );
  const values = new Float32Array(rows.size * dimension);
  for (const [i, row] of [...rows.values()].entries()) values.set(row, i * dimension);
  return { words: [...rows.keys()], dimension, values };
}

function createLineError(path: string, line: number, expected: string, text: string): UserError {
  return new UserError(`${path}:${line}: ${expected}, received ${JSON.stringify(text.slice(0, 40))}.`);
}

/** A word of a substitution table has a letter or a digit. */
function isSubstitutable(word: string): boolean {
  return /[\p{L}\p{N}]/u.test(word) && !/\s/.test(word);
}
