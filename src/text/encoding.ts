/** One text (or pair of texts) as the model reads it: special tokens in place, no padding. */
export interface Encoding {
  /** Token ids, from the classification token to the last separator. */
  readonly ids: Int32Array;
  /** Token type ids: 0 for the first text, 1 for the second where the model knows types, else 0. */
  readonly tokenTypeIds: Int32Array;
  /** True where the text was longer than the maximum length and its end was cut. */
  readonly truncated: boolean;
}

/** One text as one token a word (RIFT A.1): in a single text word i is token i + 1. */
export interface WordLevelEncoding extends Encoding {
  /** The words that were kept, of all fields one after the other, as they stand in the text. */
  readonly words: readonly string[];
  /** For each word, which field of the example it belongs to (0 or 1). */
  readonly fields: Uint8Array;
  /** For each word, the index of its token in ids. */
  readonly positions: Int32Array;
}

/** How a model reads text; saved with it and obeyed by training, evaluation and attacks. */
export type Tokenization = "subword" | "word";

/** A fixed tokenizer: pure functions of text, safe to share. */
export interface Tokenizer {
  readonly kind: "wordpiece" | "byte-bpe";
  readonly vocabSize: number;
  /** Ids of the special tokens ([CLS] [SEP] [PAD] [UNK] [MASK], or their RoBERTa counterparts). */
  readonly special: {
    readonly clsId: number;
    readonly sepId: number;
    readonly padId: number;
    readonly unkId: number;
    readonly maskId: number | null;
  };
  /** SHA-256 of what decides the encoding, for caches and journals. */
  readonly hash: string;
  /** The official encoding: texts is one text or a pair; maxLength counts special tokens; pairs are cut longest first. */
  encode(texts: readonly string[], maxLength: number): Encoding;
  /** The word encoding: exactly one token a word. */
  encodeWords(texts: readonly string[], maxLength: number): WordLevelEncoding;
  /** The one token of a word in the word encoding (a substitute, say). */
  wordToId(word: string): number;
  /** The vocabulary's strings of these ids. */
  idsToTokens(ids: ArrayLike<number>): string[];
}
