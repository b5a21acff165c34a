import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { createFileError, createFolder, writeFileAtomic } from "../files.js";
import { readLmScores, selectLikelySubstitutes } from "../text/lm-scores.js";
import { loadSubstitutions, type Substitutions } from "../text/substitutions.js";
import { Interrupted } from "../train/index.js";
import { orNull, validate } from "../validate.js";
import { checkOutput } from "./build-substitutions.js";
import type { Callbacks } from "./callbacks.js";
import { resolveTablePath } from "./read-config.js";

/** What `buildLmConstraint` accepts. */
export const buildLmConstraintRequestSchema = z.strictObject({
  scores: z.string().describe("file of the released language-model scores, such as imdb_test_lm_scores.txt"),
  substitutions: orNull(z.string()).describe('keep only substitutes of this table: "wordnet" or a JSON file'),
  minDifference: z
    .number()
    .default(-5)
    .describe("a substitute is allowed if its log-probability minus that of the word is at least this"),
  out: z.string().describe("the constraint, such as data/substitutions/imdb_test.lm.json"),
});
export type BuildLmConstraintRequest = z.input<typeof buildLmConstraintRequestSchema>;

/** A constraint that was built. */
export interface BuiltLmConstraint {
  readonly out: string;
  readonly texts: number;
  /** Substitutes with a score, and those that are allowed. */
  readonly scored: number;
  readonly allowed: number;
}

/** The allowed substitutes of one text, by position. */
interface LikelySubstitutes {
  readonly text: string;
  readonly substitutes: Readonly<Record<string, readonly string[]>>;
  readonly scored: number;
}

/**
 * Builds the file of the substitutes that a language model allows, for `--lm-constraint` of the
 * genetic attack.
 *
 *     await buildLmConstraint({ scores: "imdb_test_lm_scores.txt", out: "imdb_test.lm.json" });
 */
export async function buildLmConstraint(
  request: BuildLmConstraintRequest,
  callbacks: Callbacks = {},
): Promise<BuiltLmConstraint> {
  const parsed = validate(buildLmConstraintRequestSchema, request, "substitutions lm-constraint");
  const { scores: path, minDifference, out } = parsed;
  checkOutput(out);
  const { size } = await stat(path).catch((error: unknown) => {
    throw createFileError(error, path, "read the scores");
  });
  const table = parsed.substitutions && (await loadSubstitutions(resolveTablePath(parsed.substitutions)));
  async function* convert(): AsyncGenerator<LikelySubstitutes> {
    for await (const { text, scores, bytes } of readLmScores(path)) {
      const scored = [...scores.values()].reduce((sum, words) => sum + words.size - 1, 0);
      const likely = selectLikelySubstitutes({ text, scores }, minDifference);
      yield { text, scored, substitutes: table ? keepTableSubstitutes(text, likely, table) : likely };
      callbacks.onProgress?.({ stage: "scores", done: Math.min(bytes, size), total: size });
      if (callbacks.signal?.aborted) throw new Interrupted("Stopped. Nothing was written.");
    }
  }
  return writeConstraint(out, convert());
}

function keepTableSubstitutes(
  text: string,
  likely: Readonly<Record<string, readonly string[]>>,
  table: Substitutions,
): Record<string, string[]> {
  return Object.fromEntries(
    text.split(" ").map((word, position) => {
      const known = new Set(table.getSubstitutes(word));
      return [String(position), likely[position]!.filter((other) => known.has(other))];
    }),
  );
}

async function writeConstraint(out: string, texts: AsyncIterable<LikelySubstitutes>): Promise<BuiltLmConstraint> {
  const constraint: Record<string, LikelySubstitutes["substitutes"]> = {};
  let [scored, allowed] = [0, 0];
  for await (const each of texts) {
    constraint[each.text] = each.substitutes;
    scored += each.scored;
    allowed += Object.values(each.substitutes).reduce((sum, { length }) => sum + length, 0);
  }
  createFolder(dirname(out));
  await writeFileAtomic(out, `${JSON.stringify(constraint)}\n`);
  return { out, texts: Object.keys(constraint).length, scored, allowed };
}
