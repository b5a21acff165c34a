// Clusters of synonyms, and the noise that draws from them, for certificates of substitutions.
import { UserError } from "../../base/errors.js";
import { isOneWord } from "../../text/find-words.js";
import type { TextFields } from "./scoring.js";
import type { NoiseKernel } from "./smoothing.js";
import { mapFieldWords, splitFields } from "./words.js";

/** Words in closed clusters: every word is in at most one. */
export interface SynonymClusters {
  readonly clusters: readonly (readonly string[])[];
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
  const clusters: string[][] = [];
  const found = new Map<string, readonly string[]>();
  for (const start of neighbors.keys()) {
    if (found.has(start) || !isOneWord(start)) continue;
    const members = new Set([start]);
    for (const word of members)
      for (const other of first(word)) if (other !== word && first(other).includes(word)) members.add(other);
    if (members.size === 1) continue;
    const sorted = [...members].sort();
    clusters.push(sorted);
    for (const word of members) found.set(word, sorted);
  }
  const edges = [...neighbors].flatMap(([word, others]) => others.map((other) => [word, other] as const));
  const covered = edges.filter(([word, other]) => found.get(word)?.includes(other));
  return { clusters, coveredEdges: covered.length, totalEdges: edges.length };
}

/**
 * The noise of SAFER with closed clusters: each word becomes a random member of its cluster. All
 * members of a cluster have the same distribution, so texts that differ only within clusters have
 * the same noised text, Delta = 0, and the certificate holds for any number of such substitutions
 * if p_A > 1/2.
 */
export function createSynonymNoise(
  clusters: SynonymClusters["clusters"],
  editableFields?: readonly number[],
): (texts: TextFields) => NoiseKernel {
  const ofWord = new Map<string, readonly string[]>();
  for (const members of clusters)
    for (const word of members) {
      if (ofWord.has(word))
        throw new UserError(`Clusters of synonyms must be closed, but "${word}" is in two of them.`);
      ofWord.set(word, members);
    }
  return (texts) => {
    const fields = splitFields(texts, editableFields);
    return (rng) =>
      mapFieldWords(fields, (word) => {
        const members = ofWord.get(word.toLowerCase());
        return members ? members[rng.integer(members.length)]! : word;
      });
  };
}
