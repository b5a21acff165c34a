import type { WordFinder } from "../text/find-words.js";
import type { EditedText } from "./edited-text.js";

/**
 * One text as an attack passes it to a victim: a function that returns one string per field, with a
 * hidden word written as the victim's unknown token.
 */
export type VictimInput = (unkToken: string) => readonly string[];

/** An input that a victim has prepared, usually by tokenizing it. */
export interface PreparedInput {
  /** Everything that determines the answer, such as token IDs. Equal contents are scored once. */
  readonly content: string | Uint8Array;
  /** Number of tokens or words. Batches contain inputs of similar length. */
  readonly length: number;
}

/**
 * Anything that returns class probabilities for texts: a model, an HTTP endpoint, a function in a
 * test.
 */
export interface Victim<Prepared extends PreparedInput = PreparedInput> {
  readonly name: string;
  readonly numLabels: number;
  /**
   * SHA-256 of everything besides the text that determines the answers (weights, dtype, engine, …).
   */
  readonly hash: string;
  /** SHA-256 of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
  /**
   * False if answers may change for the same hash, as for an endpoint. Nothing is cached on disk
   * then.
   */
  readonly isDeterministic: boolean;
  /**
   * Maximum number of inputs per call. They arrive sorted by length, so a victim may split them.
   */
  readonly maxBatchSize: number;
  /** Maximum number of tokens per call, so that a call takes seconds at most. */
  readonly maxBatchTokens?: number;
  /** True if the host can prepare the next call while the victim computes, as with a GPU. */
  readonly canOverlap?: boolean;
  /**
   * The same model in float32, if this one computes in low precision. It confirms every text that
   * may reach the goal.
   */
  readonly exact?: Victim<Prepared>;
  /**
   * Texts that this victim classifies correctly with at least this logit margin are not scored again
   * by `exact`. Default: all are.
   */
  readonly decidedMargin?: number;
  /** Finds the words that an attack may change. Default: those of TextAttack. */
  readonly findWords?: WordFinder;
  /** The same, with words that the victim does not read because the text is too long. */
  readonly findAllWords?: WordFinder;
  prepare(input: VictimInput): Prepared;
  /** Prepares many inputs, if this is faster than one after the other. */
  prepareAll?(inputs: readonly VictimInput[]): Prepared[];
  /**
   * Returns a function that prepares the text with some of these substitutions, given by their
   * indices. It gives what `prepare` gives for the rendered text, but is much faster. Null if this
   * cannot be guaranteed for the text.
   */
  createComposer?(
    original: EditedText,
    substitutions: readonly (readonly [position: number, word: string])[],
  ): ((chosen: readonly number[]) => Prepared) | null;
  /** Returns one row of probabilities per input, in the same order. */
  probabilities(inputs: readonly Prepared[]): Promise<Float32Array[]>;
  /** Returns one row of logits per input, if the victim knows them. A search then uses these. */
  logits?(inputs: readonly Prepared[]): Promise<Float32Array[]>;
  /** The classes that fresh evaluations of a text return, if the victim is random. */
  predictFresh?(texts: readonly string[], count: number): Promise<Int32Array>;
}
