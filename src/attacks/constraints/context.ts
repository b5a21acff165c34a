import { groupBy } from "../../base/group-by.js";
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
      const unknown = candidates.flatMap((candidate) => {
        const word = getNewWord(candidate);
        return word === null || similarities.has(getKey(candidate, word)) ? [] : [{ origin: candidate.origin, word }];
      });
      const contexts = [...groupBy(unknown, ({ origin }) => origin)].map(([origin, found]) => {
        const words = found.map(({ word }) => word);
        const windows = listWindows(original, origin, words);
        const name = Buffer.from(sha256(windows.join("\0"))).toString("base64url");
        return { origin, words, windows, name };
      });
      const missing = contexts.filter(({ name }) => cache?.get(name) === undefined);
      const texts = [...new Set(missing.flatMap(({ windows }) => windows))];
      const vectors = yield* request(encoder, texts);
      const byText = new Map(texts.map((text, i) => [text, vectors[i]!]));
      for (const { origin, words, name, windows } of contexts) {
        const stored = cache?.get(name);
        const values = stored ?? compareWithFirst(windows.map((text) => byText.get(text)!));
        if (!stored) cache?.add(name, values);
        for (const [i, word] of words.entries()) similarities.set(getKey({ origin }, word), values[i]!);
      }
      // A word that becomes the original one again fits best.
      const measure = (candidate: EditedText): number =>
        similarities.get(getKey(candidate, getNewWord(candidate) ?? "")) ?? 1;
      return candidates
        .filter((candidate) => measure(candidate) >= minSimilarity)
        .sort((a, b) => a.position - b.position || measure(b) - measure(a));
    },
  };
}

/** The word of a replacement; null for other candidates and for the original word. */
function getNewWord({ edit, origin, original }: EditedText): string | null {
  return edit?.kind === "replace" && origin >= 0 && original.getWord(origin) !== edit.word ? edit.word : null;
}

function getKey({ origin }: Pick<EditedText, "origin">, word: string): string {
  return `${origin} ${word}`;
}

/** The words around an original word, once as they are and once with each substitute. */
function listWindows(original: EditedText, origin: number, words: readonly string[]): string[] {
  const { slots } = original;
  const { field } = slots[origin]!;
  let [start, end] = [origin, origin + 1];
  while (start > 0 && origin - start < contextSize && slots[start - 1]!.field === field) start--;
  while (end < slots.length && end - origin <= contextSize && slots[end]!.field === field) end++;
  const context = original.words.slice(start, end);
  return [original.getWord(origin), ...words].map((word) => context.with(origin - start, word).join(" "));
}

function compareWithFirst([first, ...rest]: readonly Float32Array[]): readonly number[] {
  return rest.map((vector) => Math.round(1e6 * computeCosine(first!, vector)) / 1e6);
}
