import { join } from "node:path";
import { UserError } from "../errors.js";
import { readJson, readText } from "../files.js";
import type { AddedToken } from "./added-tokens.js";
import type { SequenceLayout } from "./encoding.js";
import type { BertNormalizerOptions } from "./wordpiece.js";

/** The settings of a WordPiece model. Without a normalizer, texts are not changed. */
export interface WordPieceModel {
  readonly kind: "wordpiece";
  readonly normalizer: BertNormalizerOptions | null;
  readonly unkToken: string;
  readonly continuingPrefix: string;
  readonly maxCharacters: number;
}

/** The settings of a byte-level BPE model. */
export interface ByteBpeModel {
  readonly kind: "byte-bpe";
  /** In order of rank. */
  readonly merges: readonly (readonly [string, string])[];
  /** If null, bytes that are not in the vocabulary are dropped. */
  readonly unkToken: string | null;
  readonly fuseUnknown: boolean;
  readonly ignoreMerges: boolean;
  readonly addPrefixSpace: boolean;
}

/** Everything that determines an encoding, independent of the files that it was read from. */
export interface TokenizerSpec {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly addedTokens: readonly AddedToken[];
  readonly layout: SequenceLayout;
  readonly model: WordPieceModel | ByteBpeModel;
}

const MAX_VOCAB_SIZE = 1 << 24;

/** Parses a vocabulary object that maps tokens to IDs. `source` names it in messages. */
export function readVocabulary(value: unknown, source: string): Map<string, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UserError(
      `${source}: expected an object that maps tokens to IDs. The file may be damaged; download it again.`,
    );
  }
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(value)) {
    if (!Number.isInteger(id) || id < 0 || id >= MAX_VOCAB_SIZE) {
      throw new UserError(
        `${source}: the ID of ${JSON.stringify(token)}: expected an integer from 0 to ${MAX_VOCAB_SIZE - 1}, ` +
          `received ${JSON.stringify(id)}.`,
      );
    }
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** Reads BERT's vocab.txt: one token per line. The ID is the line number, from 0. */
export async function readVocabTxt(folder: string): Promise<TokenizerSpec> {
  const path = join(folder, "vocab.txt");
  const lines = (await readText(path, "the vocabulary")).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const vocabulary = new Map(lines.map((token, id) => [token, id]));
  const getId = createTokenLookup(vocabulary, path);
  return {
    vocabulary,
    addedTokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
      .filter((token) => vocabulary.has(token))
      .map((token) => createSpecialToken(token, getId(token))),
    layout: createBertLayout(getId("[CLS]"), getId("[SEP]")),
    model: {
      kind: "wordpiece",
      normalizer: { clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
      unkToken: "[UNK]",
      continuingPrefix: "##",
      maxCharacters: 100,
    },
  };
}

/** Reads RoBERTa's vocab.json and merges.txt. */
export async function readVocabAndMerges(folder: string): Promise<TokenizerSpec> {
  const path = join(folder, "vocab.json");
  const vocabulary = readVocabulary(await readJson(path, "the vocabulary"), path);
  const mergesPath = join(folder, "merges.txt");
  const merges = (await readText(mergesPath, "the merges")).split(/\r?\n/).flatMap((line, index) => {
    if (line === "" || (index === 0 && line.startsWith("#version"))) return [];
    return [readMerge(line, `${mergesPath}:${index + 1}`)];
  });
  const getId = createTokenLookup(vocabulary, path);
  return {
    vocabulary,
    addedTokens: ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
      .filter((token) => vocabulary.has(token))
      .map((token) => ({ ...createSpecialToken(token, getId(token)), lstrip: token === "<mask>" })),
    layout: createRobertaLayout(getId("<s>"), getId("</s>")),
    model: {
      kind: "byte-bpe",
      merges,
      unkToken: null,
      fuseUnknown: false,
      ignoreMerges: false,
      addPrefixSpace: false,
    },
  };
}

/** Parses a merge: a pair of tokens, or one string with both tokens separated by a space. */
export function readMerge(value: unknown, source: string): [string, string] {
  const pair = typeof value === "string" ? value.split(" ") : value;
  if (Array.isArray(pair) && pair.length === 2 && pair.every((token) => typeof token === "string" && token !== "")) {
    return [pair[0], pair[1]];
  }
  throw new UserError(`${source}: expected two tokens to merge ("a b"), received ${JSON.stringify(value)}.`);
}

/** Creates the layout [CLS] a [SEP] b [SEP], with type 1 for the second text. */
export function createBertLayout(clsId: number, sepId: number): SequenceLayout {
  const single = [{ token: clsId, type: 0 }, { field: 0, type: 0 } as const, { token: sepId, type: 0 }];
  return { single, pair: [...single, { field: 1, type: 1 }, { token: sepId, type: 1 }] };
}

/** Creates the layout <s> a </s></s> b </s>, with type 0 for both texts. */
export function createRobertaLayout(clsId: number, sepId: number): SequenceLayout {
  const { single } = createBertLayout(clsId, sepId);
  return { single, pair: [...single, { token: sepId, type: 0 }, { field: 1, type: 0 }, { token: sepId, type: 0 }] };
}

/** Returns a function that looks up a token and throws an error if it is missing. */
export function createTokenLookup(vocabulary: ReadonlyMap<string, number>, source: string): (token: string) => number {
  return (token) => {
    const id = vocabulary.get(token);
    if (id === undefined)
      throw new UserError(
        `${source}: the token ${JSON.stringify(token)} is missing. The file is incomplete or belongs to another model.`,
      );
    return id;
  };
}

function createSpecialToken(content: string, id: number): AddedToken {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false };
}
