import type { AddedToken } from "./added-tokens.js";
import type { Layout } from "./layout.js";
import type { BertNormaliserOptions } from "./wordpiece.js";

/** What decides WordPiece: null as the normaliser leaves the text as it is. */
export interface WordPieceModel {
  readonly kind: "wordpiece";
  readonly normaliser: BertNormaliserOptions | null;
  readonly unknown: string;
  readonly continuingPrefix: string;
  readonly maxCharacters: number;
}

/** What decides byte-level byte-pair encoding. */
export interface ByteBpeModel {
  readonly kind: "byte-bpe";
  /** In order of rank. */
  readonly merges: readonly (readonly [string, string])[];
  /** null: bytes that the vocabulary lacks are dropped. */
  readonly unknown: string | null;
  readonly fuseUnknown: boolean;
  readonly ignoreMerges: boolean;
  readonly addPrefixSpace: boolean;
}

/** All that decides an encoding, whichever files it was read from. */
export interface TokenizerSpecification {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly added: readonly AddedToken[];
  readonly layout: Layout;
  readonly model: WordPieceModel | ByteBpeModel;
}
