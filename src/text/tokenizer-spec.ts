import type { AddedToken } from "./added-tokens.js";
import type { SequenceLayout } from "./layout.js";
import type { BertNormalizerOptions } from "./wordpiece.js";

/** What decides WordPiece: null as the normaliser leaves the text as it is. */
export interface WordPieceModel {
  readonly kind: "wordpiece";
  readonly normalizer: BertNormalizerOptions | null;
  readonly unkToken: string;
  readonly continuingPrefix: string;
  readonly maxCharacters: number;
}

/** What decides byte-level byte-pair encoding. */
export interface ByteBpeModel {
  readonly kind: "byte-bpe";
  /** In order of rank. */
  readonly merges: readonly (readonly [string, string])[];
  /** null: bytes that the vocabulary lacks are dropped. */
  readonly unkToken: string | null;
  readonly fuseUnknown: boolean;
  readonly ignoreMerges: boolean;
  readonly addPrefixSpace: boolean;
}

/** All that decides an encoding, whichever files it was read from. */
export interface TokenizerSpec {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly addedTokens: readonly AddedToken[];
  readonly layout: SequenceLayout;
  readonly model: WordPieceModel | ByteBpeModel;
}
