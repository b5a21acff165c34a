import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { createFileError, readJson } from "../files.js";
import { type AddedToken, createAddedTokenSplitter } from "./added-tokens.js";
import { createByteBpe } from "./byte-bpe.js";
import type { Tokenizer } from "./encoding.js";
import { buildSequence, type SequenceLayout, selectLayout } from "./layout.js";
import { memoize } from "./memoize.js";
import { readTokenizerJson } from "./tokenizer-json.js";
import { applyTokenizerConfig } from "./tokenizer-options.js";
import type { TokenizerSpec } from "./tokenizer-spec.js";
import { createTokenLookup, readVocabAndMerges, readVocabTxt } from "./vocabulary-files.js";
import { encodeWords, WORD_RULES_VERSION } from "./word-encoding.js";
import { createBertNormalizer, createWordPiece, type TokenizeFunction } from "./wordpiece.js";

/** Opens the tokenizer of a model's folder: tokenizer.json, else vocab.txt (BERT), else vocab.json and merges.txt (RoBERTa); with the options beside it. */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const names = new Set(
    await readdir(folder).catch((error: unknown) => {
      throw createFileError(error, folder, "open the tokenizer's folder");
    }),
  );
  const specification = await readTokenizerSpec(folder, names);
  return createTokenizer(await applyTokenizerConfig(specification, folder, names), folder);
}

async function readTokenizerSpec(folder: string, names: ReadonlySet<string>): Promise<TokenizerSpec> {
  if (names.has("tokenizer.json")) {
    const path = join(folder, "tokenizer.json");
    return readTokenizerJson(await readJson(path, "the tokenizer"), path);
  }
  if (names.has("vocab.txt")) return readVocabTxt(folder);
  if (names.has("vocab.json") && names.has("merges.txt")) return readVocabAndMerges(folder);
  throw new UserError(
    `${folder}: no tokenizer there; expected tokenizer.json, or vocab.txt (BERT), or vocab.json and merges.txt (RoBERTa)`,
  );
}

/** Makes a tokenizer of what decides it; `where` names its source in messages. */
export function createTokenizer(specification: TokenizerSpec, where: string): Tokenizer {
  const { addedTokens: added, layout, model } = specification;
  const vocabulary = new Map(specification.vocabulary);
  for (const token of added) vocabulary.set(token.content, token.id);
  const strings: (string | undefined)[] = [];
  for (const [token, id] of vocabulary) strings[id] = token;
  const special = findSpecialTokens(vocabulary, layout, model.unkToken, where);
  const normalize =
    model.kind === "wordpiece" && model.normalizer !== null
      ? createBertNormalizer(model.normalizer)
      : (text: string) => text;
  const tokenize = createTokenize(specification, where);
  const encodeText = createTextEncoder(added, createAddedTokenSplitter(added, normalize), tokenize);
  const wordToken = createWordToId(specification, special.unkId, normalize, tokenize);
  let hash: string | undefined;

  return {
    kind: model.kind,
    vocabSize: strings.length,
    special,
    get hash() {
      hash ??= hashSpec(specification);
      return hash;
    },
    encode: (texts, maxLength) =>
      buildSequence(
        selectLayout(layout, texts.length),
        // Which of two texts is cut first depends on their whole lengths.
        texts.map((text) => encodeText(text, texts.length === 1 ? maxLength : Number.POSITIVE_INFINITY)),
        maxLength,
      ),
    encodeWords: (texts, maxLength) => encodeWords(texts, maxLength, special, wordToken),
    wordToId: wordToken,
    idsToTokens: (ids) =>
      Array.from(ids, (id) => {
        const token = strings[id];
        if (token === undefined)
          throw new RangeError(
            `token id: expected one of the vocabulary's (0 to ${strings.length - 1}), received ${id}`,
          );
        return token;
      }),
  };
}

/** The ids of a text up to the word with which there are `limit`; nothing past it is kept, so the rest is not read. */
function createTextEncoder(
  added: readonly AddedToken[],
  cut: ReturnType<typeof createAddedTokenSplitter>,
  tokenize: TokenizeFunction,
): (text: string, limit: number) => number[] {
  const encode = (text: string, ids: number[], limit: number): number[] => {
    let more = true;
    cut(text, {
      token: (id) => {
        if (more) ids.push(id);
      },
      text: (segment) => {
        more = more && tokenize(segment, ids, limit);
      },
    });
    return ids;
  };
  // An added token that reaches over a space is seen in the whole text only.
  if (added.some(({ content, rstrip }) => rstrip || /\s/.test(content)))
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

/** Where the next space stands that follows a visible ASCII character: there the parts of a text, read alone, are what the whole is. */
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
  unknown: string | null,
  where: string,
): Tokenizer["special"] {
  const find = (...names: string[]): number | undefined =>
    names.map((name) => vocabulary.get(name)).find((id) => id !== undefined);
  const required = (what: string, ...names: string[]): number => {
    const id = find(...names);
    if (id === undefined)
      throw new UserError(
        `${where}: no ${what} token; expected ${names.map((name) => JSON.stringify(name)).join(" or ")} in the vocabulary`,
      );
    return id;
  };
  const ends = layout.single.flatMap((part) => ("token" in part ? [part.token] : []));
  return {
    clsId: ends[0]!,
    sepId: ends.at(-1)!,
    padId: required("padding", "[PAD]", "<pad>"),
    unkId: unknown === null ? required("unknown", "[UNK]", "<unk>") : required("unknown", unknown),
    maskId: find("[MASK]", "<mask>") ?? null,
  };
}

function createTokenize({ model, vocabulary }: TokenizerSpec, where: string): TokenizeFunction {
  const getId = createTokenLookup(vocabulary, where);
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

/** The one token of a word: the whole word in WordPiece's vocabulary, or the first piece after a space (RIFT A.1). */
function createWordToId(
  { model, vocabulary, addedTokens: added }: TokenizerSpec,
  unknown: number,
  normalize: (text: string) => string,
  tokenize: TokenizeFunction,
): (word: string) => number {
  // Text must not be able to write a separator: a word that spells a special token is an unknown word.
  const reserved = new Set(added.map((token) => token.content));
  return memoize((word) => {
    if (model.kind === "wordpiece") {
      const whole = normalize(word).trim();
      return reserved.has(whole) ? unknown : (vocabulary.get(whole) ?? unknown);
    }
    const ids: number[] = [];
    tokenize(` ${word}`, ids, 1);
    return ids[0] ?? unknown;
  });
}

/** SHA-256 of all that decides the encodings; the vocabulary's order in its file does not. */
function hashSpec({ vocabulary, addedTokens: added, layout, model }: TokenizerSpec): string {
  const tokens = [...vocabulary].sort(([first], [second]) => (first < second ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([WORD_RULES_VERSION, added, layout, model, tokens]))
    .digest("hex");
}
