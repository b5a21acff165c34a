import type { ResultCache } from "../../base/result-cache.js";
import { sha256 } from "../../base/sha256.js";
import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";
import { request } from "../requests.js";
import type { ContextFilter } from "../resources.js";
import { computeCosine } from "./sentence-similarity.js";

/** Words on each side of a word that decide its sense. */
const contextSize = 5;

/**
 * The default for WordNet, whose synonyms include those of other senses. On emails, 66% of the
 * synonyms pass.
 */
export const wordNetContextSimilarity = 0.85;

/**
 * The similarity that a request wants for a table; null if substitutes of any sense are allowed.
 * WordNet mixes the senses of a word; other tables are used as they are.
 */
export function resolveContextSimilarity(requested: number | null, table: string): number | null {
  const similarity = requested ?? (/^wordnet(?=,|$)/.test(table) ? wordNetContextSimilarity : -1);
  return similarity <= -1 ? null : similarity;
}

/**
 * Removes substitutes that do not fit the context of the original word, and sorts the others by how
 * well they fit: a sentence encoder compares the words around the substitute with the original
 * ones. What `cache` knows is not encoded again. Without a filter, there is no constraint.
 */
export function fitContext(filter: ContextFilter | undefined): Constraint[] {
  return filter ? [createContextConstraint(filter)] : [];
}

function createContextConstraint({ encoder, minSimilarity, cache }: ContextFilter): Constraint {
  const known = new WeakMap<EditedText, Map<string, number>>();
  return {
    name: `similarity in context of at least ${minSimilarity} (${encoder.name})`,
    *filter(candidates, { original }) {
      const similarities = known.get(original) ?? new Map<string, number>();
      known.set(original, similarities);
      const unknown = findUnknownWords(candidates, similarities);
      const contexts = [...unknown].map(([origin, words]) => ({
        origin,
        words,
        ...listWindows(original, origin, words),
      }));
      const missing = contexts.filter(({ name }) => cache?.get(name) === undefined);
      const texts = [...new Set(missing.flatMap(({ windows }) => windows))];
      const vectors = texts.length > 0 ? yield* request(encoder, texts) : [];
      const byText = new Map(texts.map((text, i) => [text, vectors[i]!]));
      for (const { origin, words, name, windows } of contexts) {
        const values =
          cache?.get(name) ??
          storeSimilarities(
            cache,
            name,
            windows.map((text) => byText.get(text)!),
          );
        for (const [i, word] of words.entries()) similarities.set(`${origin} ${word}`, values[i]!);
      }
      // A word that becomes the original one again fits best.
      const measure = (candidate: EditedText): number => similarities.get(getKey(candidate) ?? "") ?? 1;
      return candidates
        .filter((candidate) => measure(candidate) >= minSimilarity)
        .sort((a, b) => a.position - b.position || measure(b) - measure(a));
    },
  };
}

/** The place and the word of a replacement; null for other candidates and for the original word. */
function getKey({ edit, origin, original }: EditedText): string | null {
  if (edit?.kind !== "replace" || origin < 0 || original.getWord(origin) === edit.word) return null;
  return `${origin} ${edit.word}`;
}

function findUnknownWords(
  candidates: readonly EditedText[],
  known: ReadonlyMap<string, number>,
): ReadonlyMap<number, string[]> {
  const unknown = new Map<number, string[]>();
  for (const candidate of candidates) {
    const key = getKey(candidate);
    if (key === null || known.has(key) || candidate.edit?.kind !== "replace") continue;
    unknown.set(candidate.origin, [...(unknown.get(candidate.origin) ?? []), candidate.edit.word]);
  }
  return unknown;
}

/** The words around an original word, once as they are and once with each substitute. */
function listWindows(
  original: EditedText,
  origin: number,
  words: readonly string[],
): { name: string; windows: string[] } {
  const { slots } = original;
  const { field } = slots[origin]!;
  let [start, end] = [origin, origin + 1];
  while (start > 0 && origin - start < contextSize && slots[start - 1]!.field === field) start--;
  while (end < slots.length && end - origin <= contextSize && slots[end]!.field === field) end++;
  const context = original.words.slice(start, end);
  const windows = [original.getWord(origin), ...words].map((word) => context.with(origin - start, word).join(" "));
  return { name: Buffer.from(sha256(windows.join("\0"))).toString("base64url"), windows };
}

/** Computes the similarity of each window to the first one. */
function storeSimilarities(
  cache: ResultCache<readonly number[]> | undefined,
  name: string,
  [original, ...rest]: readonly Float32Array[],
): readonly number[] {
  const values = rest.map((vector) => Math.round(1e6 * computeCosine(original!, vector)) / 1e6);
  cache?.add(name, values);
  return values;
}
