import { z } from "zod";
import { UserError } from "../errors.js";
import { validate } from "../validate.js";
import { addedTokenFields } from "./added-tokens.js";
import type { LayoutPart, SequenceLayout } from "./encoding.js";
import {
  type ByteBpeModel,
  createBertLayout,
  createRobertaLayout,
  createTokenLookup,
  readMerge,
  readVocabulary,
  type TokenizerSpec,
  type WordPieceModel,
} from "./tokenizer-spec.js";

const id = z
  .int()
  .min(0)
  .max((1 << 24) - 1);

const component = z.looseObject({ type: z.string() });
type Component = z.output<typeof component>;

const fileSchema = z.looseObject({
  added_tokens: z.array(z.object({ id, ...addedTokenFields })).default([]),
  normalizer: component.nullish(),
  pre_tokenizer: component.nullish(),
  post_processor: component.nullish(),
  // Old files omit the type of the model.
  model: z.looseObject({ type: z.string().optional(), vocab: z.unknown() }),
});

const wordPieceSchema = z.looseObject({
  unk_token: z.string().default("[UNK]"),
  continuing_subword_prefix: z.string().default("##"),
  max_input_chars_per_word: z.int().min(1).default(100),
});

const bpeSchema = z.looseObject({
  dropout: z.number().nullish(),
  unk_token: z.string().nullish(),
  continuing_subword_prefix: z.string().nullish(),
  end_of_word_suffix: z.string().nullish(),
  fuse_unk: z.boolean().default(false),
  byte_fallback: z.boolean().default(false),
  ignore_merges: z.boolean().default(false),
  merges: z.array(z.unknown()),
});

const normalizerSchema = z.object({
  clean_text: z.boolean().default(true),
  handle_chinese_chars: z.boolean().default(true),
  strip_accents: z.boolean().nullish(),
  lowercase: z.boolean().default(true),
});

const byteLevelSchema = z.looseObject({
  add_prefix_space: z.boolean().default(true),
  use_regex: z.boolean().default(true),
});

const clsSepSchema = z.looseObject({ sep: z.tuple([z.string(), id]), cls: z.tuple([z.string(), id]) });

const templatePart = z.union([
  z.object({ SpecialToken: z.object({ id: z.string(), type_id: id }) }),
  z.object({ Sequence: z.object({ id: z.enum(["A", "B"]), type_id: id }) }),
]);
const templateSchema = z.looseObject({
  single: z.array(templatePart),
  pair: z.array(templatePart),
  special_tokens: z.record(z.string(), z.object({ ids: z.array(id) })),
});

/**
 * Parses the tokenizer.json of a BERT or RoBERTa model. Its padding and truncation settings are
 * ignored.
 */
export function readTokenizerJson(data: unknown, source: string): TokenizerSpec {
  const file = validate(fileSchema, data, source);
  const vocabulary = readVocabulary(file.model.vocab, `${source}: model.vocab`);
  const type = file.model.type ?? ("merges" in file.model ? "BPE" : "WordPiece");
  const normalizer = unwrapSingle(file.normalizer, "normalizers");
  const preTokenizer = unwrapSingle(file.pre_tokenizer, "pretokenizers");
  const expected = type === "WordPiece" ? "BertPreTokenizer" : "ByteLevel";
  if (type !== "WordPiece" && type !== "BPE")
    throw createUnsupportedError(source, "model", type, "WordPiece and byte-level BPE");
  if (preTokenizer?.type !== expected)
    throw createUnsupportedError(source, "pre_tokenizer", preTokenizer?.type, `${expected} (for ${type})`);
  return {
    vocabulary,
    addedTokens: file.added_tokens,
    layout: readLayout(unwrapSingle(file.post_processor, "processors", "ByteLevel"), source),
    model:
      type === "WordPiece"
        ? readWordPiece(file.model, normalizer, vocabulary, source)
        : readBpe(file.model, normalizer, preTokenizer, source),
  };
}

function readWordPiece(
  value: unknown,
  normalizer: Component | null,
  vocabulary: ReadonlyMap<string, number>,
  source: string,
): WordPieceModel {
  const model = validate(wordPieceSchema, value, `${source}: model`);
  if (normalizer !== null && normalizer.type !== "BertNormalizer") {
    throw createUnsupportedError(source, "normalizer", normalizer.type, "BertNormalizer or none (for WordPiece)");
  }
  createTokenLookup(vocabulary, `${source}: model.vocab`)(model.unk_token);
  const options = normalizer && validate(normalizerSchema, normalizer, `${source}: normalizer`);
  return {
    kind: "wordpiece",
    normalizer: options && { ...options, strip_accents: options.strip_accents ?? null },
    unkToken: model.unk_token,
    continuingPrefix: model.continuing_subword_prefix,
    maxCharacters: model.max_input_chars_per_word,
  };
}

function readBpe(value: unknown, normalizer: Component | null, preTokenizer: Component, source: string): ByteBpeModel {
  const model = validate(bpeSchema, value, `${source}: model`);
  const { add_prefix_space: addPrefixSpace, use_regex: regex } = validate(
    byteLevelSchema,
    preTokenizer,
    `${source}: pre_tokenizer`,
  );
  if (normalizer !== null) throw createUnsupportedError(source, "normalizer", normalizer.type, "none (for BPE)");
  if (!regex) throw createUnsupportedError(source, "pre_tokenizer.use_regex", false, "true");
  for (const option of ["dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"] as const) {
    if (model[option]) throw createUnsupportedError(source, `model.${option}`, model[option], "none");
  }
  return {
    kind: "byte-bpe",
    merges: model.merges.map((merge, rank) => readMerge(merge, `${source}: model.merges[${rank}]`)),
    unkToken: model.unk_token ?? null,
    fuseUnknown: model.fuse_unk,
    ignoreMerges: model.ignore_merges,
    addPrefixSpace,
  };
}

function readLayout(processor: Component | null, source: string): SequenceLayout {
  const location = `${source}: post_processor`;
  if (processor?.type === "BertProcessing" || processor?.type === "RobertaProcessing") {
    const { cls, sep } = validate(clsSepSchema, processor, location);
    return processor.type === "BertProcessing" ? createBertLayout(cls[1], sep[1]) : createRobertaLayout(cls[1], sep[1]);
  }
  if (processor?.type !== "TemplateProcessing") {
    throw createUnsupportedError(
      source,
      "post_processor",
      processor?.type,
      "TemplateProcessing, BertProcessing and RobertaProcessing",
    );
  }
  const template = validate(templateSchema, processor, location);
  const read = (name: "single" | "pair"): LayoutPart[] =>
    template[name].flatMap((part): LayoutPart[] => {
      if ("Sequence" in part) return [{ field: part.Sequence.id === "A" ? 0 : 1, type: part.Sequence.type_id }];
      const token = template.special_tokens[part.SpecialToken.id];
      if (token === undefined)
        throw new UserError(
          `${location}.${name}: ${JSON.stringify(part.SpecialToken.id)} is missing in special_tokens.`,
        );
      return token.ids.map((number) => ({ token: number, type: part.SpecialToken.type_id }));
    });
  const layout = { single: read("single"), pair: read("pair") };
  for (const [name, fields] of [
    ["single", "0"],
    ["pair", "0,1"],
  ] as const) {
    const found = layout[name].flatMap((part) => ("field" in part ? [part.field] : [])).sort();
    const isEnclosed = "token" in (layout[name][0] ?? {}) && "token" in (layout[name].at(-1) ?? {});
    if (String(found) !== fields || !isEnclosed) {
      throw new UserError(
        `${location}.${name}: expected each text once, between special tokens. ` +
          "Use the tokenizer that the encoder was trained with.",
      );
    }
  }
  return layout;
}

/** Unwraps a sequence of one component. Components of the type `ignored` have no effect here. */
function unwrapSingle(value: Component | null | undefined, list: string, ignored?: string): Component | null {
  if (value?.type !== "Sequence") return value ?? null;
  const inner = z
    .array(component)
    .safeParse(value[list])
    .data?.filter((item) => item.type !== ignored);
  return inner?.length === 1 ? inner[0]! : value;
}

function createUnsupportedError(source: string, name: string, received: unknown, supported: string): UserError {
  return new UserError(
    `${source}: ${name}: ${received === undefined ? "none" : JSON.stringify(received)} is not supported. ` +
      `Supported: ${supported}. Use a BERT or RoBERTa tokenizer.`,
  );
}
