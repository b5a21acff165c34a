import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { createFileError, readJson } from "../files.js";
import { type AddedToken, createAddedTokenSplitter } from "./added-tokens.js";
import { createByteBpe } from "./byte-bpe.js";
import {
  buildSequence,
  encodeWords,
  type SequenceLayout,
  selectLayout,
  type Tokenizer,
  WORD_RULES_VERSION,
} from "./encoding.js";
import { memoize } from "./memoize.js";
import { applyTokenizerConfig } from "./tokenizer-config.js";
import { readTokenizerJson } from "./tokenizer-json.js";
import { createTokenLookup, readVocabAndMerges, readVocabTxt, type TokenizerSpec } from "./tokenizer-spec.js";
import { createBertNormalizer, createWordPiece, type TokenizeFunction } from "./wordpiece.js";

/**
 * Loads the tokenizer from a model folder: tokenizer.json, else vocab.txt (BERT), else vocab.json
 * and merges.txt (RoBERTa). Applies tokenizer_config.json if it exists.
 */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const names = new Set(
    await readdir(folder).catch((error: unknown) => {
      throw createFileError(error, folder, "open the folder of the tokenizer");
    }),
  );
  const spec = await readTokenizerSpec(folder, names);
  return createTokenizer(await applyTokenizerConfig(spec, folder, names), folder);
}

async function readTokenizerSpec(folder: string, names: ReadonlySet<string>): Promise<TokenizerSpec> {
  if (names.has("tokenizer.json")) {
    const path = join(folder, "tokenizer.json");
    return readTokenizerJson(await readJson(path, "the tokenizer"), path);
  }
  if (names.has("vocab.txt")) return readVocabTxt(folder);
  if (names.has("vocab.json") && names.has("merges.txt")) return readVocabAndMerges(folder);
  throw new UserError(
    `${folder}: no tokenizer found. ` +
      "Expected tokenizer.json, or vocab.txt (BERT), or vocab.json and merges.txt (RoBERTa).",
  );
}

/** Creates a tokenizer from its spec. `source` names it in messages. */
export function createTokenizer(spec: TokenizerSpec, source: string): Tokenizer {
  const { addedTokens, layout, model } = spec;
  const vocabulary = new Map(spec.vocabulary);
  for (const token of addedTokens) vocabulary.set(token.content, token.id);
  const strings: (string | undefined)[] = [];
  for (const [token, id] of vocabulary) strings[id] = token;
  const special = findSpecialTokens(vocabulary, layout, model.unkToken, source);
  const normalize =
    model.kind === "wordpiece" && model.normalizer !== null
      ? createBertNormalizer(model.normalizer)
      : (text: string) => text;
  const tokenize = createTokenize(spec, source);
  const encodeText = createTextEncoder(addedTokens, createAddedTokenSplitter(addedTokens, normalize), tokenize);
  const wordToId = createWordToId(spec, special.unkId, normalize, tokenize);
  let hash: string | undefined;

  return {
    kind: model.kind,
    vocabSize: strings.length,
    special,
    get hash() {
      hash ??= hashSpec(spec);
      return hash;
    },
    encode: (texts, maxLength) =>
      buildSequence(
        selectLayout(layout, texts.length),
        // Which text of a pair is truncated first depends on their full lengths.
        texts.map((text) => encodeText(text, texts.length === 1 ? maxLength : Number.POSITIVE_INFINITY)),
        maxLength,
      ),
    encodeWords: (texts, maxLength) => encodeWords(texts, maxLength, special, wordToId),
    wordToId,
    idsToTokens: (ids) =>
      Array.from(ids, (id) => {
        const token = strings[id];
        if (token === undefined)
          throw new RangeError(
            `token ID: expected an ID of the vocabulary (0 to ${strings.length - 1}), received ${id}`,
          );
        return token;
      }),
  };
}

/**
 * Creates a function that encodes a text. It stops after `limit` tokens, because the rest is
 * truncated anyway.
 */
function createTextEncoder(
  addedTokens: readonly AddedToken[],
  split: ReturnType<typeof createAddedTokenSplitter>,
  tokenize: TokenizeFunction,
): (text: string, limit: number) => number[] {
  const encode = (text: string, ids: number[], limit: number): number[] => {
    let more = true;
    split(text, {
      token: (id) => {
        if (more) ids.push(id);
      },
      text: (segment) => {
        more = more && tokenize(segment, ids, limit);
      },
    });
    return ids;
  };
  // Added tokens that contain or consume white space must be searched in the complete text.
  if (addedTokens.some(({ content, rstrip }) => rstrip || /\s/.test(content)))
    return (text, limit) => encode(text, [], limit);
  const encodePart = memoize((part): readonly number[] => encode(part, [], Number.POSITIVE_INFINITY));
  return (text, limit) => {
    const ids: number[] = [];
    for (let start = 0, end = 0; start < text.length; start = end) {
      end = findPartEnd(text, start);
      const known = encodePart(text.slice(start, end));
      if (ids.length + known.length >= limit) return encode(text.slice(start), ids, limit);
      for (const id of known) ids.push(id);
    }
    return ids;
  };
}

/**
 * Finds the next space after a visible ASCII character. There a text can be split without changing
 * its encoding.
 */
function findPartEnd(text: string, start: number): number {
  for (let space = text.indexOf(" ", start + 1); space !== -1; space = text.indexOf(" ", space + 1)) {
    const before = text.charCodeAt(space - 1);
    if (before > 0x20 && before < 0x7f) return space;
  }
  return text.length;
}

function findSpecialTokens(
  vocabulary: ReadonlyMap<string, number>,
  layout: SequenceLayout,
  unkToken: string | null,
  source: string,
): Tokenizer["special"] {
  const find = (...names: string[]): number | undefined =>
    names.map((name) => vocabulary.get(name)).find((id) => id !== undefined);
  const required = (role: string, ...names: string[]): number => {
    const id = find(...names);
    if (id !== undefined) return id;
    const expected = names.map((name) => JSON.stringify(name)).join(" or ");
    throw new UserError(`${source}: no ${role} token. Expected ${expected} in the vocabulary.`);
  };
  const ends = layout.single.flatMap((part) => ("token" in part ? [part.token] : []));
  return {
    clsId: ends[0]!,
    sepId: ends.at(-1)!,
    padId: required("padding", "[PAD]", "<pad>"),
    unkId: unkToken === null ? required("unknown", "[UNK]", "<unk>") : required("unknown", unkToken),
    maskId: find("[MASK]", "<mask>") ?? null,
  };
}

function createTokenize({ model, vocabulary }: TokenizerSpec, source: string): TokenizeFunction {
  const getId = createTokenLookup(vocabulary, source);
  if (model.kind === "wordpiece") return createWordPiece({ ...model, vocabulary, unkId: getId(model.unkToken) });
  return createByteBpe({
    ...model,
    vocabulary,
    unkId: model.unkToken === null ? null : getId(model.unkToken),
    merges: model.merges.map(([left, right]) => ({
      left: getId(left),
      right: getId(right),
      merged: getId(left + right),
    })),
  });
}

/**
 * Maps a word to one token (RIFT A.1): the complete word in WordPiece, the first piece after a
 * space in BPE.
 */
function createWordToId(
  { model, vocabulary, addedTokens }: TokenizerSpec,
  unkId: number,
  normalize: (text: string) => string,
  tokenize: TokenizeFunction,
): (word: string) => number {
  // A word that spells a special token is unknown, so that texts cannot contain separators.
  const reserved = new Set(addedTokens.map((token) => token.content));
  return memoize((word) => {
    if (model.kind === "wordpiece") {
      const normalized = normalize(word).trim();
      return reserved.has(normalized) ? unkId : (vocabulary.get(normalized) ?? unkId);
    }
    const ids: number[] = [];
    tokenize(` ${word}`, ids, 1);
    return ids[0] ?? unkId;
  });
}

/**
 * Computes the SHA-256 of everything that determines the encodings. The order of the vocabulary
 * does not.
 */
function hashSpec({ vocabulary, addedTokens, layout, model }: TokenizerSpec): string {
  const tokens = [...vocabulary].sort(([first], [second]) => (first < second ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([WORD_RULES_VERSION, addedTokens, layout, model, tokens]))
    .digest("hex");
}
