import { rm, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress } from "../../base/events.js";
import { createFileError, createFolder, writeFileAtomic } from "../../base/files.js";
import { openResultCache, type ResultCache } from "../../base/result-cache.js";
import { countSchema, orNull, validate } from "../../base/validate.js";
import { hashModelFolder, loadMaskedLm } from "../../models/index.js";
import { resolveTablePath } from "../../settings/read-config.js";
import { applyRuntime, runtimeOptions } from "../../settings/runtime-config.js";
import { free } from "../../tensor/index.js";
import { type FilePosition, readLmScores, selectLikelySubstitutes } from "../../text/lm-scores.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { readInputs } from "../../text/read-inputs.js";
import type { Substitutions } from "../../text/substitutions.js";
import { Interrupted } from "../../train/index.js";
import { createSubstituteScorer, type PositionScores } from "./masked-lm-scores.js";
import { checkOutput, getPartPath } from "./substitutions.js";

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
type ParsedLmRequest = z.output<typeof buildLmConstraintRequestSchema>;

export interface BuiltLmConstraint {
  readonly out: string;
  readonly texts: number;
  /** Substitutes with a score, and those that are allowed. */
  readonly scored: number;
  readonly allowed: number;
}

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
  request: z.input<typeof buildLmConstraintRequestSchema>,
  callbacks: Callbacks = {},
): Promise<BuiltLmConstraint> {
  const parsed = validate(buildLmConstraintRequestSchema, request, "substitutions lm-constraint");
  const { scores: path, maskedLm, out } = parsed;
  if ((path === null) === (maskedLm === null))
    throw new UserError(
      "expected either --scores FILE or --masked-lm MODEL with --data FILE and --substitutions TABLE",
    );
  checkOutput(out);
  return path === null ? buildWithMaskedLm(parsed, callbacks) : buildFromScores(path, parsed, callbacks);
}

async function buildFromScores(
  path: string,
  { substitutions, minDifference, out }: ParsedLmRequest,
  callbacks: Callbacks,
): Promise<BuiltLmConstraint> {
  const { size, mtimeMs } = await stat(path).catch((error: unknown) => {
    throw createFileError(error, path, "read the scores");
  });
  const table = substitutions && (await loadSubstitutions(resolveTablePath(substitutions)));
  const createKey = (start: FilePosition): string =>
    JSON.stringify([resolve(path), size, mtimeMs, minDifference, table ? table.hash : null, start.bytes]);
  return withPart<LikelySubstitutes & { end: FilePosition }>(out, async function* (part) {
    let start: FilePosition = { bytes: 0, lines: 0 };
    for (let known = part.get(createKey(start)); known; known = part.get(createKey(start))) {
      yield known;
      start = known.end;
    }
    if (start.bytes >= size && size > 0) return;
    for await (const { text, scores, end } of readLmScores(path, start)) {
      const scored = [...scores.values()].reduce((sum, words) => sum + words.size - 1, 0);
      const likely = selectLikelySubstitutes({ text, scores }, minDifference);
      const result = { text, scored, substitutes: table ? keepTableSubstitutes(text, likely, table) : likely, end };
      part.add(createKey(start), result);
      start = end;
      yield result;
      reportProgress(callbacks, "scores", Math.min(end.bytes, size), size, "bytes");
      if (callbacks.signal?.aborted && end.bytes < size)
        throw new Interrupted(`Stopped. Finished texts are kept in ${getPartPath(out)}.`);
    }
  });
}

async function buildWithMaskedLm(
  { maskedLm, data, substitutions, maxLength, minDifference, out, device, threads }: ParsedLmRequest,
  callbacks: Callbacks,
): Promise<BuiltLmConstraint> {
  if (data === null || substitutions === null)
    throw new UserError("--masked-lm: expected the texts (--data FILE) and a table (--substitutions TABLE), too");
  const runtime = applyRuntime({ device, threads });
  const table = await loadSubstitutions(resolveTablePath(substitutions));
  const texts: string[] = [];
  for await (const input of readInputs(data)) texts.push(...input.texts.filter((text) => text.trim() !== ""));
  const model = await loadMaskedLm(maskedLm!, { device: runtime.device });
  const identity = [await hashModelFolder(model.folder), table.hash, maxLength];
  const score = createSubstituteScorer(model, table, maxLength);
  const scoreTexts = async function* (part: CachePart<{ text: string; scores: PositionScores }>) {
    for (const [i, original] of texts.entries()) {
      const key = JSON.stringify([...identity, original]);
      const known = part.get(key);
      const result = known ?? score(original);
      if (!known) part.add(key, result);
      const scores = new Map(result.scores.map(([position, words]) => [position, new Map(words)]));
      const scored = [...scores.values()].reduce((sum, words) => sum + words.size - 1, 0);
      yield {
        text: result.text,
        scored,
        substitutes: selectLikelySubstitutes({ text: result.text, scores }, minDifference),
      };
      reportProgress(callbacks, "texts", i + 1, texts.length, "texts");
      await new Promise(setImmediate);
      if (callbacks.signal?.aborted && i + 1 < texts.length)
        throw new Interrupted(`Stopped after ${i + 1} of ${texts.length} texts. They are kept in ${getPartPath(out)}.`);
    }
  };
  try {
    return await withPart(out, scoreTexts);
  } finally {
    free(model.weights);
  }
}

type CachePart<T> = Pick<ResultCache<T>, "get" | "add">;

async function withPart<T>(
  out: string,
  listTexts: (part: CachePart<T>) => AsyncIterable<LikelySubstitutes>,
): Promise<BuiltLmConstraint> {
  const path = getPartPath(out);
  const part = openResultCache<T>(path);
  try {
    const built = await writeConstraint(out, listTexts(part));
    await rm(path);
    return built;
  } finally {
    part.close();
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
