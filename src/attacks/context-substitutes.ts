import { createHash } from "node:crypto";
import type { ResultCache } from "../result-cache.js";
import type { AttackExample } from "./attack-space.js";
import { computeCosine } from "./constraints/sentence-similarity.js";
import type { SentenceEncoder } from "./resources.js";

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
 * Ranks the substitutes of every word by how well they fit its context, and removes those that do
 * not: a sentence encoder compares the words around the substitute with the original ones.
 * The windows of all examples are encoded together, and what `cache` knows is not encoded again.
 */
export async function keepContextualSubstitutes(
  examples: readonly AttackExample[],
  encoder: SentenceEncoder,
  minSimilarity: number,
  cache?: ResultCache<readonly number[]>,
): Promise<AttackExample[]> {
  const contexts = examples.map((example) => example.replacements.map((_, i) => listWindows(example, i)));
  const distinct = new Map(contexts.flat().map((context) => [context.name, context.windows]));
  const similarities = await measureSimilarities(distinct, encoder, cache);
  return examples.map((example, i) => ({
    ...example,
    replacements: example.replacements.map((list, position) => {
      const found = similarities.get(contexts[i]![position]!.name)!;
      const scored = list.slice(1).map((word, k) => ({ word, similarity: found[k]! }));
      const kept = scored.filter(({ similarity }) => similarity >= minSimilarity);
      kept.sort((a, b) => b.similarity - a.similarity);
      return [list[0]!, ...kept.map(({ word }) => word)];
    }),
  }));
}

/** The words around a word, once with each replacement. The first window is the original one. */
function listWindows(
  { words, fields, replacements }: AttackExample,
  position: number,
): { readonly name: string; readonly windows: readonly string[] } {
  const list = replacements[position]!;
  const [start, end] = findContext(fields, position);
  const context = words.slice(start, end);
  const windows = list.length === 1 ? [] : list.map((word) => context.with(position - start, word).join(" "));
  return { name: createHash("sha256").update(windows.join("\0")).digest("base64url"), windows };
}

/** The similarity of each window to the first one, by name. */
async function measureSimilarities(
  contexts: ReadonlyMap<string, readonly string[]>,
  encoder: SentenceEncoder,
  cache: ResultCache<readonly number[]> | undefined,
): Promise<Map<string, readonly number[]>> {
  const unknown = [...contexts].filter(([name]) => cache?.get(name) === undefined);
  const texts = [...new Set(unknown.flatMap(([, windows]) => windows))];
  const vectors = await encoder.compute(texts);
  const byText = new Map(texts.map((text, i) => [text, vectors[i]!]));
  const found = new Map<string, readonly number[]>();
  for (const [name, windows] of unknown) {
    const [original, ...rest] = windows.map((text) => byText.get(text)!);
    const values = rest.map((vector) => Math.round(1e6 * computeCosine(original!, vector)) / 1e6);
    found.set(name, values);
    if (windows.length > 0) cache?.add(name, values);
  }
  return new Map([...contexts.keys()].map((name) => [name, found.get(name) ?? cache!.get(name)!]));
}

/** The range of words around a word, within its field. */
function findContext(fields: ArrayLike<number>, position: number): [start: number, end: number] {
  let start = position;
  let end = position + 1;
  while (start > 0 && position - start < contextSize && fields[start - 1] === fields[position]) start--;
  while (end < fields.length && end - position <= contextSize && fields[end] === fields[position]) end++;
  return [start, end];
}
