import { rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import { createFileError, createFolder, writeFileAtomic } from "../files.js";
import { hashModelFolder, loadMaskedLm } from "../models/index.js";
import { openResultCache } from "../result-cache.js";
import { free } from "../tensor/index.js";
import { readLmScores, selectLikelySubstitutes } from "../text/lm-scores.js";
import { readInputs } from "../text/read-inputs.js";
import { loadSubstitutions, type Substitutions } from "../text/substitutions.js";
import { Interrupted } from "../train/index.js";
import { countSchema, orNull, validate } from "../validate.js";
import { checkOutput, getPartPath } from "./build-substitutions.js";
import type { Callbacks } from "./callbacks.js";
import { createSubstituteScorer, type PositionScores } from "./masked-lm-scores.js";
import { resolveTablePath } from "./read-config.js";
import { applyRuntime, runtimeOptions } from "./runtime-config.js";

/** What `buildLmConstraint` accepts. */
export const buildLmConstraintRequestSchema = z.strictObject({
  scores: orNull(z.string()).describe("file of the released language-model scores, such as imdb_test_lm_scores.txt"),
  maskedLm: orNull(z.string()).describe("instead of scores: a masked language model that scores the substitutes"),
  data: orNull(z.string()).describe("with a masked language model: file of texts, one per line or JSON lines"),
  substitutions: orNull(z.string()).describe('keep only substitutes of this table: "wordnet" or a JSON file'),
  maxLength: countSchema.default(128).describe("with a masked language model: tokens around a word"),
  device: runtimeOptions.device,
  threads: runtimeOptions.threads,
  minDifference: z
    .number()
    .default(-5)
    .describe("a substitute is allowed if its log-probability minus that of the word is at least this"),
  out: z.string().describe("the constraint, such as data/substitutions/imdb_test.lm.json"),
});
type ParsedRequest = z.output<typeof buildLmConstraintRequestSchema>;
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
  const { scores: path, maskedLm, minDifference, out } = parsed;
  if ((path === null) === (maskedLm === null))
    throw new UserError(
      "expected either --scores FILE or --masked-lm MODEL with --data FILE and --substitutions TABLE",
    );
  checkOutput(out);
  if (path === null) return buildWithMaskedLm(parsed, callbacks);
  const file: string = path;
  const { size } = await stat(path).catch((error: unknown) => {
    throw createFileError(error, path, "read the scores");
  });
  const table = parsed.substitutions && (await loadSubstitutions(resolveTablePath(parsed.substitutions)));
  async function* convert(): AsyncGenerator<LikelySubstitutes> {
    for await (const { text, scores, bytes } of readLmScores(file)) {
      const scored = [...scores.values()].reduce((sum, words) => sum + words.size - 1, 0);
      const likely = selectLikelySubstitutes({ text, scores }, minDifference);
      yield { text, scored, substitutes: table ? keepTableSubstitutes(text, likely, table) : likely };
      callbacks.onProgress?.({ stage: "scores", done: Math.min(bytes, size), total: size });
      if (callbacks.signal?.aborted) throw new Interrupted("Stopped. Nothing was written.");
    }
  }
  return writeConstraint(out, convert());
}

/** Scores the substitutes with a masked language model. Finished texts are kept in OUT.part. */
async function buildWithMaskedLm(
  { maskedLm, data, substitutions, maxLength, minDifference, out, device, threads }: ParsedRequest,
  { onProgress, signal }: Callbacks,
): Promise<BuiltLmConstraint> {
  if (data === null || substitutions === null)
    throw new UserError("--masked-lm: expected the texts (--data FILE) and a table (--substitutions TABLE), too");
  const runtime = applyRuntime({ device, threads });
  const table = await loadSubstitutions(resolveTablePath(substitutions));
  const texts: string[] = [];
  for await (const input of readInputs(data)) texts.push(...input.texts.filter((text) => text.trim() !== ""));
  const model = await loadMaskedLm(maskedLm!, { device: runtime.device });
  const identity = [await hashModelFolder(model.folder), table.hash, maxLength];
  const part = getPartPath(out);
  createFolder(dirname(out));
  const cache = openResultCache<{ text: string; scores: PositionScores }>(part);
  const score = createSubstituteScorer(model, table, maxLength);
  async function* scoreTexts(): AsyncGenerator<LikelySubstitutes> {
    for (const [i, original] of texts.entries()) {
      const key = JSON.stringify([...identity, original]);
      const known = cache.get(key);
      const result = known ?? score(original);
      if (!known) cache.add(key, result);
      const scores = new Map(result.scores.map(([position, words]) => [position, new Map(words)]));
      const scored = [...scores.values()].reduce((sum, words) => sum + words.size - 1, 0);
      yield {
        text: result.text,
        scored,
        substitutes: selectLikelySubstitutes({ text: result.text, scores }, minDifference),
      };
      onProgress?.({ stage: "texts", done: i + 1, total: texts.length });
      await new Promise(setImmediate);
      if (signal?.aborted && i + 1 < texts.length)
        throw new Interrupted(`Stopped after ${i + 1} of ${texts.length} texts. They are kept in ${part}.`);
    }
  }
  try {
    const built = await writeConstraint(out, scoreTexts());
    await rm(part);
    return built;
  } finally {
    cache.close();
    free(model.weights);
  }
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
