import { join } from "node:path";
import { UserError } from "../errors.js";
import { readJson, readText } from "../files.js";
import type { AddedToken } from "./added-tokens.js";
import type { SequenceLayout } from "./layout.js";
import type { TokenizerSpec } from "./tokenizer-spec.js";

const MAX_VOCAB_SIZE = 1 << 24;

/** Checks a vocabulary object: token -> id. */
export function readVocabulary(value: unknown, where: string): Map<string, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UserError(`${where}: expected an object of tokens and their ids; the file may be damaged: get it again`);
  }
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(value)) {
    if (!Number.isInteger(id) || id < 0 || id >= MAX_VOCAB_SIZE) {
      throw new UserError(
        `${where}: the id of ${JSON.stringify(token)}: expected a whole number from 0 to ${MAX_VOCAB_SIZE - 1}, received ${JSON.stringify(id)}`,
      );
    }
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** Reads BERT's vocab.txt: a token a line, its id the line's number from 0. */
export async function readVocabTxt(folder: string): Promise<TokenizerSpec> {
  const path = join(folder, "vocab.txt");
  const lines = (await readText(path, "the vocabulary")).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const vocabulary = new Map(lines.map((token, id) => [token, id]));
  const getId = createTokenLookup(vocabulary, path);
  const [start, end] = [getId("[CLS]"), getId("[SEP]")];
  return {
    vocabulary,
    addedTokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
      .filter((token) => vocabulary.has(token))
      .map((token) => createSpecialToken(token, getId(token))),
    layout: createBertLayout(start, end),
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
  const [start, end] = [getId("<s>"), getId("</s>")];
  return {
    vocabulary,
    addedTokens: ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
      .filter((token) => vocabulary.has(token))
      .map((token) => ({ ...createSpecialToken(token, getId(token)), lstrip: token === "<mask>" })),
    layout: createRobertaLayout(start, end),
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

/** A merge is a pair of tokens, or both in one string with a space between. */
export function readMerge(value: unknown, where: string): [string, string] {
  const pair = typeof value === "string" ? value.split(" ") : value;
  if (Array.isArray(pair) && pair.length === 2 && pair.every((token) => typeof token === "string" && token !== "")) {
    return [pair[0], pair[1]];
  }
  throw new UserError(`${where}: expected two tokens to merge ("a b"), received ${JSON.stringify(value)}`);
}

/** [CLS] a [SEP] b [SEP], the second text of type 1. */
export function createBertLayout(start: number, end: number): SequenceLayout {
  const single = [{ token: start, type: 0 }, { field: 0, type: 0 } as const, { token: end, type: 0 }];
  return { single, pair: [...single, { field: 1, type: 1 }, { token: end, type: 1 }] };
}

/** <s> a </s></s> b </s>, all of type 0. */
export function createRobertaLayout(start: number, end: number): SequenceLayout {
  const single = [{ token: start, type: 0 }, { field: 0, type: 0 } as const, { token: end, type: 0 }];
  return { single, pair: [...single, { token: end, type: 0 }, { field: 1, type: 0 }, { token: end, type: 0 }] };
}

/** The id of a token that must be there. */
export function createTokenLookup(vocabulary: ReadonlyMap<string, number>, where: string): (token: string) => number {
  return (token) => {
    const id = vocabulary.get(token);
    if (id === undefined)
      throw new UserError(
        `${where}: the token ${JSON.stringify(token)} is missing; the file does not belong to such a model, or is cut off`,
      );
    return id;
  };
}

function createSpecialToken(content: string, id: number): AddedToken {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false };
}
