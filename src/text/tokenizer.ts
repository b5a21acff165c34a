import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { createFileError, readJson } from "../base/files.js";
import { readSentencePiece, sentencePieceFile } from "./deberta-sentencepiece.js";
import {
  buildOffsets,
  buildSequence,
  buildWordSequence,
  type Encoding,
  encodeWords,
  type SequenceLayout,
  selectLayout,
  type Tokenization,
  type Tokenizer,
} from "./encoding.js";
import { canSplitAtSpaces, createPartEncoder, limitText } from "./part-encoder.js";
import { createTextComposer, rememberParts } from "./text-composer.js";
import {
  applyTokenizerConfig,
  emptyTokenizerConfig,
  readTokenizerConfig,
  type TokenizerConfig,
} from "./tokenizer-config.js";
import { readTokenizerJson, type TokenizerFile, toTokenizerJson } from "./tokenizer-file.js";
import { hashTokenizer } from "./tokenizer-hash.js";
import { createPackageTokenizer, type TextTokens } from "./tokenizer-worker.js";
import { readVocabTxt } from "./vocab-txt.js";
import { createWordsToIds } from "./word-tokens.js";
import { splitWords } from "./words.js";

/**
 * The tokenizer that a model with word tokenization was trained from. The tokenizer.json beside it
 * is a WordLevel tokenizer for other libraries and does not know the pieces of words.
 */
export const SUBWORD_TOKENIZER = "subword-tokenizer.json";

/**
 * Loads the tokenizer from a model folder: tokenizer.json, else BERT's vocab.txt or DeBERTa's SentencePiece model.
 * Applies tokenizer_config.json if it exists.
 */
export async function loadTokenizer(folder: string, tokenization?: Tokenization): Promise<Tokenizer> {
  const names = new Set(
    await readdir(folder).catch((error: unknown) => {
      throw createFileError(error, folder, "open the folder of the tokenizer");
    }),
  );
  const config = await readTokenizerConfig(folder, names);
  const file = await readTokenizerFile(folder, names, config);
  return createTokenizer(await applyTokenizerConfig(file, config, folder, names), folder, config, tokenization);
}

async function readTokenizerFile(
  folder: string,
  names: ReadonlySet<string>,
  config: TokenizerConfig,
): Promise<TokenizerFile> {
  const json = [SUBWORD_TOKENIZER, "tokenizer.json"].find((name) => names.has(name));
  if (json !== undefined) {
    const path = join(folder, json);
    return readTokenizerJson(await readJson(path, "the tokenizer", { kind: "tokenizer" }), path);
  }
  if (names.has(sentencePieceFile)) return readSentencePiece(folder, config);
  if (names.has("vocab.txt")) return readVocabTxt(folder);
  throw new UserError(
    `${folder}: no tokenizer found. Expected tokenizer.json, or vocab.txt (BERT), or ${sentencePieceFile} (DeBERTa). If it has ` +
      "other files, save tokenizer.json: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER).",
  );
}

/**
 * The package numbers added tokens that the vocabulary lacks itself: after all other tokens. A file
 * with another number would give other IDs than it says.
 */
function checkAddedIds({ model, addedTokens }: TokenizerFile, source: string): void {
  const size = model.vocabulary.size;
  let highest = -1;
  for (const { content, id } of addedTokens.toSorted((a, b) => a.id - b.id)) {
    const given = model.vocabulary.get(content) ?? (highest >= size ? highest + 1 : size);
    highest = Math.max(highest, given);
    if (given !== id)
      throw new UserError(
        `${source}: added_tokens: expected the ID ${given} for ${JSON.stringify(content.slice(0, 80))}, ` +
          `received ${id}. The file may be damaged; download it again.`,
      );
  }
}

/**
 * The post-processor names its special tokens by ID. An ID outside the vocabulary has no
 * embedding.
 */
function checkLayoutIds(layout: SequenceLayout, strings: readonly (string | undefined)[], source: string): void {
  for (const part of [...layout.single, ...layout.pair])
    if ("token" in part && strings[part.token] === undefined)
      throw new UserError(
        `${source}: post_processor: expected IDs of the vocabulary (0 to ${strings.length - 1}), ` +
          `received ${part.token}. The file may be damaged; download it again.`,
      );
}

/** Finds the IDs of the special tokens, by their names in the config, else by their usual names. */
function findSpecialTokens(
  { model, addedTokens, postProcessor }: TokenizerFile,
  config: TokenizerConfig,
  source: string,
): Tokenizer["special"] {
  const added = new Map(addedTokens.map(({ content, id }) => [content, id]));
  const find = (...names: (string | null | undefined)[]): number | undefined =>
    names
      .map((name) => (name == null ? undefined : (added.get(name) ?? model.vocabulary.get(name))))
      .find((id) => id !== undefined);
  const required = (role: string, names: readonly string[]): number => {
    const id = find(...names);
    if (id !== undefined) return id;
    const expected = names.map((name) => JSON.stringify(name)).join(" or ");
    throw new UserError(`${source}: no ${role} token. Expected ${expected} in the vocabulary.`);
  };
  const { pad_token: pad, unk_token: unk, mask_token: mask } = config.specialTokens;
  const unkToken = model.type === "Unigram" ? model.pieces[model.unk_id ?? -1] : model.unk_token;
  const ends = postProcessor.layout.single.flatMap((part) => ("token" in part ? [part.token] : []));
  return {
    clsId: ends[0]!,
    sepId: ends.at(-1)!,
    padId: find(pad) ?? required("padding", ["[PAD]", "<pad>"]),
    unkId: unkToken == null ? (find(unk) ?? required("unknown", ["[UNK]", "<unk>"])) : required("unknown", [unkToken]),
    maskId: find(mask, "[MASK]", "<mask>") ?? null,
  };
}

/** Creates a tokenizer from its checked file. `source` names it in messages. */
export function createTokenizer(
  file: TokenizerFile,
  source: string,
  config = emptyTokenizerConfig,
  tokenization: Tokenization = "subword",
): Tokenizer {
  const { model, addedTokens } = file;
  const { layout, trimOffsets } = file.postProcessor;
  const strings: (string | undefined)[] = [];
  for (const [token, id] of model.vocabulary) strings[id] = token;
  for (const { content, id } of addedTokens) strings[id] = content;
  checkAddedIds(file, source);
  checkLayoutIds(layout, strings, source);
  const special = findSpecialTokens(file, config, source);
  const createPackaged = (tokens: TokenizerFile["addedTokens"]) =>
    createPackageTokenizer(
      JSON.stringify({
        ...toTokenizerJson({ ...file, addedTokens: tokens }),
        post_processor: trimOffsets && { type: "ByteLevel", ...trimOffsets, trim_offsets: true, use_regex: true },
      }),
      source,
    );
  const packaged = createPackaged(addedTokens);
  const encodeParts = createPartEncoder(packaged, file);
  const wordsToIds = createWordsToIds(file, special.unkId, () => createPackaged([]), source);
  const encodePart = rememberParts((text) => encodeParts([{ text, limit: Number.POSITIVE_INFINITY }])[0]!);
  const encodeWordsOfPart = rememberParts((part) => wordsToIds(splitWords(part, tokenization === "released-word")));
  let hash: string | undefined;

  const encodeAll = (inputs: readonly (readonly string[])[], maxLength: number): Encoding[] => {
    // The full lengths decide which text of a pair is truncated first.
    const ids = encodeParts(
      inputs.flatMap((texts) =>
        texts.map((text) => ({ text, limit: texts.length === 1 ? maxLength : Number.POSITIVE_INFINITY })),
      ),
    );
    let end = 0;
    return inputs.map((texts) => {
      end += texts.length;
      return buildSequence(selectLayout(layout, texts.length), ids.slice(end - texts.length, end), maxLength);
    });
  };

  return {
    vocabSize: strings.length,
    special,
    get hash() {
      hash ??= hashTokenizer(file);
      return hash;
    },
    encode: (texts, maxLength) => encodeAll([texts], maxLength)[0]!,
    encodeAll,
    encodeWithOffsets(texts, maxLength) {
      const sequence = selectLayout(layout, texts.length);
      const encoded = texts.map((text) => readOffsets(limitText(text), packaged([limitText(text)], true)[0]!));
      const encoding = buildSequence(
        sequence,
        encoded.map(({ ids }) => ids),
        maxLength,
      );
      const offsets = encoded.map((text) => text.offsets);
      return { ...encoding, offsets: buildOffsets(sequence, offsets, maxLength) };
    },
    createComposer(texts, places, maxLength, unit) {
      const isSubword = unit === "subword";
      if (isSubword && !canSplitAtSpaces(file)) return null;
      return createTextComposer(texts, places, {
        // Which text of a pair is truncated first depends on their full lengths.
        maxTokens: texts.length === 1 ? maxLength : Number.POSITIVE_INFINITY,
        encodePart: isSubword ? encodePart : encodeWordsOfPart,
        build: (tokens, allocate) =>
          isSubword
            ? buildSequence(selectLayout(layout, texts.length), tokens, maxLength, { allocate })
            : buildWordSequence(special, tokens, maxLength, tokenization === "released-word", allocate),
      });
    },
    encodeWords: (texts, maxLength) =>
      encodeWords(texts, maxLength, special, wordsToIds, tokenization === "released-word"),
    wordToId: (word) => wordsToIds([word])[0]!,
    idsToTokens: (ids) =>
      Array.from(ids, (id) => {
        const token = strings[id];
        if (token === undefined)
          throw new RangeError(
            `token ID: expected an ID of the vocabulary (0 to ${strings.length - 1}), received ${id}`,
          );
        return token;
      }),
    toJson: () => toTokenizerJson(file),
  };
}

/** Converts offsets from code points to UTF-16 units, as `text.slice(start, end)` needs them. */
function readOffsets(text: string, { ids, offsets }: TextTokens): { ids: number[]; offsets: [number, number][] } {
  const units: number[] = [];
  let unit = 0;
  for (const character of text) {
    units.push(unit);
    unit += character.length;
  }
  units.push(unit);
  return { ids, offsets: offsets!.map(([start, end]) => [units[start]!, units[end]!]) };
}
