/** One text as an attack hands it over. */
export interface VictimInput {
  /** The words of all fields one after the other, substitutions made. */
  readonly words: readonly string[];
  /** For each word, the field it belongs to. */
  readonly fields: ArrayLike<number>;
  /** How many fields there are; the last may have no words. */
  readonly fieldCount: number;
  /** Index of a word to be read as the unknown token. */
  readonly mask?: number;
  /** The same as text, one string a field, in the original's spacing; the masked word is written as `unknown`. */
  texts(unknown: string): string[];
}

/** An input made ready for its victim, once: what decides the answer, and how much work it is. */
export interface PreparedInput {
  /** All that decides the answer (token ids, or the text): inputs of the same content are scored once. */
  readonly content: string | Uint8Array;
  /** Tokens or words; batches are filled with inputs of like length. */
  readonly length: number;
}

/** Anything that gives class probabilities for texts: a model, an endpoint, a script in a test. */
export interface Victim<Ready extends PreparedInput = PreparedInput> {
  readonly name: string;
  readonly numLabels: number;
  /** SHA-256 of all that decides its answers beside the text (weights, encoding, length, dtype, engine). */
  readonly hash: string;
  /** Hashes of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
  /** False where answers may change behind the same hash (an endpoint): then nothing is cached on disk. */
  readonly isDeterministic: boolean;
  /** The most inputs of one call. They come sorted by length, so a victim may cut them into smaller batches itself. */
  readonly maxBatchSize: number;
  prepare(input: VictimInput): Ready;
  /** One row of probabilities an input, in the same order. */
  probabilities(inputs: readonly Ready[]): Promise<Float32Array[]>;
}
