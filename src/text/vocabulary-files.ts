import { join } from "node:path";
import { UserError } from "../errors.js";
import { readJson, readText } from "../files.js";
import type { AddedToken } from "./added-tokens.js";
import type { Layout } from "./layout.js";
import type { TokenizerSpecification } from "./specification.js";

const LARGEST_ID = 1 << 24;

/** Checks a vocabulary object: token -> id. */
export function readVocabulary(value: unknown, where: string): Map<string, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UserError(`${where}: expected an object of tokens and their ids; the file may be damaged: get it again`);
  }
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(value)) {
    if (!Number.isInteger(id) || id < 0 || id >= LARGEST_ID) {
      throw new UserError(
        `${where}: the id of ${JSON.stringify(token)}: expected a whole number from 0 to ${LARGEST_ID - 1}, received ${JSON.stringify(id)}`,
      );
    }
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** Reads BERT's vocab.txt: a token a line, its id the line's number from 0. */
export async function readVocabTxt(folder: string): Promise<TokenizerSpecification> {
  const path = join(folder, "vocab.txt");
  const lines = (await readText(path, "the vocabulary")).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const vocabulary = new Map(lines.map((token, id) => [token, id]));
  const idOf = finder(vocabulary, path);
  const [start, end] = [idOf("[CLS]"), idOf("[SEP]")];
  return {
    vocabulary,
    added: ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
      .filter((token) => vocabulary.has(token))
      .map((token) => special(token, idOf(token))),
    layout: bertLayout(start, end),
    model: {
      kind: "wordpiece",
      normaliser: { clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
      unknown: "[UNK]",
      continuingPrefix: "##",
      maxCharacters: 100,
    },
  };
}

/** Reads RoBERTa's vocab.json and merges.txt. */
export async function readVocabAndMerges(folder: string): Promise<TokenizerSpecification> {
  const path = join(folder, "vocab.json");
  const vocabulary = readVocabulary(await readJson(path, "the vocabulary"), path);
  const mergesPath = join(folder, "merges.txt");
  const merges = (await readText(mergesPath, "the merges")).split(/\r?\n/).flatMap((line, index) => {
    if (line === "" || (index === 0 && line.startsWith("#version"))) return [];
    return [readMerge(line, `${mergesPath}:${index + 1}`)];
  });
  const idOf = finder(vocabulary, path);
  const [start, end] = [idOf("<s>"), idOf("</s>")];
  return {
    vocabulary,
    added: ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
      .filter((token) => vocabulary.has(token))
      .map((token) => ({ ...special(token, idOf(token)), lstrip: token === "<mask>" })),
    layout: robertaLayout(start, end),
    model: {
      kind: "byte-bpe",
      merges,
      unknown: null,
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
export function bertLayout(start: number, end: number): Layout {
  const single = [{ token: start, type: 0 }, { field: 0, type: 0 } as const, { token: end, type: 0 }];
  return { single, pair: [...single, { field: 1, type: 1 }, { token: end, type: 1 }] };
}

/** <s> a </s></s> b </s>, all of type 0. */
export function robertaLayout(start: number, end: number): Layout {
  const single = [{ token: start, type: 0 }, { field: 0, type: 0 } as const, { token: end, type: 0 }];
  return { single, pair: [...single, { token: end, type: 0 }, { field: 1, type: 0 }, { token: end, type: 0 }] };
}

/** The id of a token that must be there. */
export function finder(vocabulary: ReadonlyMap<string, number>, where: string): (token: string) => number {
  return (token) => {
    const id = vocabulary.get(token);
    if (id === undefined)
      throw new UserError(
        `${where}: the token ${JSON.stringify(token)} is missing; the file does not belong to such a model, or is cut off`,
      );
    return id;
  };
}

function special(content: string, id: number): AddedToken {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false };
}
