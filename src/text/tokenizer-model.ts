import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { createTokenLookup, readVocabulary, tokenId } from "./added-tokens.js";

/** Longer words take cubic time. All published models use 100 or 200. */
const MAX_WORD_CHARACTERS = 256;

const nullableText = z
  .string()
  .nullish()
  .transform((value) => value ?? null);

const wordPieceSchema = z.object({
  type: z.literal("WordPiece"),
  unk_token: z.string().default("[UNK]"),
  continuing_subword_prefix: z.string().default("##"),
  max_input_chars_per_word: z.int().min(1).max(MAX_WORD_CHARACTERS).default(100),
});

const wordLevelSchema = z.object({ type: z.literal("WordLevel"), unk_token: z.string() });

const bpeSchema = z.object({
  type: z.literal("BPE"),
  unk_token: nullableText,
  continuing_subword_prefix: nullableText,
  end_of_word_suffix: nullableText,
  fuse_unk: z.boolean().default(false),
  byte_fallback: z.boolean().default(false),
  ignore_merges: z.boolean().default(false),
});
const mergesSchema = z.object({ merges: z.array(z.unknown()), dropout: z.number().nullish() });

const unigramSchema = z.object({
  unk_id: tokenId.nullish(),
  byte_fallback: z.boolean().default(false),
  vocab: z.array(z.unknown()).min(1),
});

/** The model of a tokenizer, written as in tokenizer.json but with the vocabulary as a map. */
export type TokenizerModel = { readonly vocabulary: ReadonlyMap<string, number> } & (
  | Readonly<z.output<typeof wordPieceSchema>>
  | Readonly<z.output<typeof wordLevelSchema>>
  | (Readonly<z.output<typeof bpeSchema>> & {
      /** In order of rank. */
      readonly merges: readonly (readonly [string, string])[];
    })
  | {
      readonly type: "Unigram";
      readonly unk_id: number | null;
      readonly byte_fallback: boolean;
      /** The logarithm of the probability of each token, by ID. */
      readonly scores: readonly number[];
      readonly pieces: readonly string[];
    }
);

/** Checks the model of tokenizer.json. `source` names the file in messages. */
export function readModel(value: Record<string, unknown>, source: string): TokenizerModel {
  // Old files omit the type of the model.
  const type = value.type ?? ("merges" in value ? "BPE" : Array.isArray(value.vocab) ? "Unigram" : "WordPiece");
  const location = `${source}: model`;
  if (type === "Unigram") return readUnigram(value, location);
  const vocabulary = readVocabulary(value.vocab, `${location}.vocab`);
  const getId = createTokenLookup(vocabulary, `${location}.vocab`);
  if (type === "BPE") return readBpe({ ...value, type }, vocabulary, getId, location);
  if (type !== "WordPiece" && type !== "WordLevel")
    throw new UserError(
      `${location}: ${JSON.stringify(type)} is not supported. Supported: WordPiece, BPE, Unigram and WordLevel. ` +
        "Use a model with another tokenizer.",
    );
  const model = validate(type === "WordPiece" ? wordPieceSchema : wordLevelSchema, { ...value, type }, location);
  getId(model.unk_token);
  return { vocabulary, ...model };
}

function readBpe(
  value: object,
  vocabulary: ReadonlyMap<string, number>,
  getId: (token: string) => number,
  location: string,
): TokenizerModel {
  const model = validate(bpeSchema, value, location);
  const { merges, dropout } = validate(mergesSchema, value, location);
  if (dropout)
    throw new UserError(
      `${location}.dropout: ${dropout} is not supported, because it makes tokens random. Set it to null.`,
    );
  if (model.unk_token !== null) getId(model.unk_token);
  const prefix = model.continuing_subword_prefix ?? "";
  const checked = merges.map((merge, rank) => {
    const place = `${location}.merges[${rank}]`;
    const [left, right] = readMerge(merge, place);
    if (!right.startsWith(prefix))
      throw new UserError(`${place}: expected ${JSON.stringify(right)} to start with ${JSON.stringify(prefix)}.`);
    for (const token of [left, right, left + right.slice(prefix.length)]) getId(token);
    return [left, right] as const;
  });
  return { vocabulary, ...model, merges: checked };
}

function readMerge(value: unknown, source: string): [string, string] {
  const pair = typeof value === "string" ? value.split(" ") : value;
  if (Array.isArray(pair) && pair.length === 2 && pair.every((token) => typeof token === "string" && token !== "")) {
    return [pair[0], pair[1]];
  }
  throw new UserError(`${source}: expected two tokens to merge ("a b"), received ${JSON.stringify(value)}.`);
}

function readUnigram(value: unknown, location: string): TokenizerModel {
  const model = validate(unigramSchema, value, location);
  const pieces: string[] = [];
  const scores: number[] = [];
  model.vocab.forEach((entry, id) => {
    const [piece, score] = Array.isArray(entry) && entry.length === 2 ? (entry as unknown[]) : [];
    if (typeof piece !== "string" || piece === "" || typeof score !== "number" || !Number.isFinite(score))
      throw new UserError(
        `${location}.vocab[${id}]: expected a token and its score (["▁the", -3.2]), received ${JSON.stringify(entry)}.`,
      );
    pieces.push(piece);
    scores.push(score);
  });
  if (model.unk_id != null && model.unk_id >= pieces.length)
    throw new UserError(`${location}.unk_id: expected an ID below ${pieces.length}, received ${model.unk_id}.`);
  return {
    type: "Unigram",
    vocabulary: new Map(pieces.map((piece, id) => [piece, id])),
    unk_id: model.unk_id ?? null,
    byte_fallback: model.byte_fallback,
    scores,
    pieces,
  };
}

export function toModelJson(model: TokenizerModel): object {
  if (model.type === "Unigram") {
    const { type, unk_id, byte_fallback, pieces, scores } = model;
    return { type, unk_id, vocab: pieces.map((piece, id) => [piece, scores[id]]), byte_fallback };
  }
  const { vocabulary, ...options } = model;
  return { ...options, vocab: Object.fromEntries(vocabulary) };
}
