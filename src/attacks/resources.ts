import type { PartOfSpeech } from "../text/part-of-speech.js";
import type { Resource } from "./recipe.js";

/** Words that may take the place of a word, nearest first. */
export interface NeighborTable {
  readonly name: string;
  readonly hash: string;
  readonly usesPartOfSpeech: boolean;
  getSubstitutes(word: string, partOfSpeech?: PartOfSpeech): readonly string[];
  /** Cosine similarity of two words, if the table has vectors; undefined for unknown words. */
  computeSimilarity?(first: string, second: string): number | undefined;
}

/** WordNet as PWWS reads it: the lemmas of all synsets of a word, in any part of speech. */
export interface SynonymDictionary {
  readonly hash: string;
  getLemmas(word: string, partOfSpeech?: PartOfSpeech): readonly string[];
}

/** Text to a vector of length 1. */
export interface SentenceEncoder extends Resource<string, Float32Array> {
  readonly hash: string;
}

/** The words that a masked language model expects at a position. */
export interface MaskedWord {
  readonly word: string;
  readonly probability: number;
}

/** Texts with one masked word to the most probable words there, most probable first. */
export interface MaskedLanguageModel
  extends Resource<{ readonly before: string; readonly after: string }, readonly MaskedWord[]> {
  readonly hash: string;
}

/** Gradients of the victim's loss with respect to its token embeddings. */
export interface GradientSource
  extends Resource<{ readonly texts: readonly string[]; readonly label: number }, GradientAnswer> {
  /** For each word, the change of the loss by a first-order estimate if another word stood there. */
  readonly hash: string;
}

export interface GradientAnswer {
  /** L1 norm of the gradient of each character range's tokens, averaged over the tokens. */
  readonly tokens: readonly {
    readonly field: number;
    readonly start: number;
    readonly end: number;
    readonly norm: number;
  }[];
  /** Dot product of the gradient at a token with the embedding of each of some words. */
  estimateChange(field: number, start: number, end: number, word: string): number | undefined;
}

/** Everything that recipes can use besides the victim. */
export interface RecipeResources {
  readonly neighbors: NeighborTable;
  readonly wordnet: SynonymDictionary;
  readonly encoder: SentenceEncoder;
  readonly mlm: MaskedLanguageModel;
  readonly gradient: GradientSource;
  /** The labels of the task. */
  readonly labels: readonly string[];
}
export type ResourceName = keyof RecipeResources;
