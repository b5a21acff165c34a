// Clusters of synonyms, and the noise that draws from them, for certificates of substitutions.
import { isOneWord } from "../text/find-words.js";
import type { TextFields } from "./scoring.js";
import type { NoiseKernel } from "./smoothing.js";
import { mapFieldWords, splitFields } from "./words.js";

/** Words in closed clusters: every word is in at most one. */
export interface SynonymClusters {
  /** The members of the cluster of a word, with the word in lower case; null if it has none. */
  find(word: string): readonly string[] | null;
  /** Edges of the table between words of one cluster, and all edges of the table. */
  readonly coveredEdges: number;
  readonly totalEdges: number;
}

/**
 * What a certificate with clusters says, for every output that shows it: it is not about the whole
 * table.
 */
export const synonymCoverage =
  "any number of substitutions by words of the same cluster of mutual neighbors; other words are not covered";

/**
 * Joins words that are among each other's first k neighbors, and takes the connected components as
 * clusters. The components of the complete table are no option: one has a third of all words. The
 * keys are in lower case. Phrases are left out, because they are several words in a text.
 */
export function createSynonymClusters(neighbors: ReadonlyMap<string, readonly string[]>, k: number): SynonymClusters {
  const first = (word: string): readonly string[] => neighbors.get(word)?.slice(0, k).filter(isOneWord) ?? [];
  const clusters = new Map<string, readonly string[]>();
  for (const start of neighbors.keys()) {
    if (clusters.has(start) || !isOneWord(start)) continue;
    const members = new Set([start]);
    for (const word of members)
      for (const other of first(word)) if (other !== word && first(other).includes(word)) members.add(other);
    if (members.size === 1) continue;
    const sorted = [...members].sort();
    for (const word of members) clusters.set(word, sorted);
  }
  const edges = [...neighbors].flatMap(([word, others]) => others.map((other) => [word, other] as const));
  const covered = edges.filter(([word, other]) => clusters.get(word)?.includes(other));
  return {
    find: (word) => clusters.get(word.toLowerCase()) ?? null,
    coveredEdges: covered.length,
    totalEdges: edges.length,
  };
}

/**
 * The noise of SAFER with closed clusters: each word becomes a random member of its cluster. All
 * members of a cluster have the same distribution, so texts that differ only within clusters have
 * the same noised text, Delta = 0, and the certificate holds for any number of such substitutions
 * if p_A > 1/2.
 */
export function createSynonymKernel(
  texts: TextFields,
  clusters: SynonymClusters,
  editableFields?: readonly number[],
): NoiseKernel {
  const fields = splitFields(texts, editableFields);
  return (rng) =>
    mapFieldWords(fields, (word) => {
      const members = clusters.find(word);
      return members ? members[rng.integer(members.length)]! : word;
    });
}
