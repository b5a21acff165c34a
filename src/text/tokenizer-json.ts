import { z } from "zod";
import { UserError } from "../errors.js";
import { validate } from "../validate.js";
import type { LayoutPart, SequenceLayout } from "./layout.js";
import type { ByteBpeModel, TokenizerSpec, WordPieceModel } from "./tokenizer-spec.js";
import {
  createBertLayout,
  createRobertaLayout,
  createTokenLookup,
  readMerge,
  readVocabulary,
} from "./vocabulary-files.js";

const id = z
  .int()
  .min(0)
  .max((1 << 24) - 1);

const component = z.looseObject({ type: z.string() });
type Component = z.output<typeof component>;

const fileSchema = z.looseObject({
  added_tokens: z
    .array(
      z.object({
        id,
        content: z.string(),
        single_word: z.boolean().default(false),
        lstrip: z.boolean().default(false),
        rstrip: z.boolean().default(false),
        normalized: z.boolean().default(false),
      }),
    )
    .default([]),
  normalizer: component.nullish(),
  pre_tokenizer: component.nullish(),
  post_processor: component.nullish(),
  // Old files leave the model's type out.
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

/** Reads the parsed tokenizer.json of a BERT or RoBERTa model. Its padding and truncation are ignored: the caller decides those. */
export function readTokenizerJson(data: unknown, where: string): TokenizerSpec {
  const file = validate(fileSchema, data, where);
  const vocabulary = readVocabulary(file.model.vocab, `${where}: model.vocab`);
  const type = file.model.type ?? ("merges" in file.model ? "BPE" : "WordPiece");
  const parts = {
    normaliser: unwrapSingle(file.normalizer, "normalizers"),
    preTokeniser: unwrapSingle(file.pre_tokenizer, "pretokenizers"),
    postProcessor: unwrapSingle(file.post_processor, "processors", "ByteLevel"),
  };
  const preTokenizer = type === "WordPiece" ? "BertPreTokenizer" : "ByteLevel";
  if (type !== "WordPiece" && type !== "BPE")
    throw createUnsupportedError(where, "model", type, "WordPiece and byte-level BPE");
  if (parts.preTokeniser?.type !== preTokenizer) {
    throw createUnsupportedError(where, "pre_tokenizer", parts.preTokeniser?.type, `${preTokenizer} (for ${type})`);
  }
  return {
    vocabulary,
    addedTokens: file.added_tokens,
    layout: readLayout(parts.postProcessor, where),
    model:
      type === "WordPiece"
        ? readWordPiece(file.model, parts.normaliser, vocabulary, where)
        : readBpe(file.model, parts.normaliser, parts.preTokeniser, where),
  };
}

function readWordPiece(
  value: unknown,
  normalizer: Component | null,
  vocabulary: ReadonlyMap<string, number>,
  where: string,
): WordPieceModel {
  const model = validate(wordPieceSchema, value, `${where}: model`);
  if (normalizer !== null && normalizer.type !== "BertNormalizer") {
    throw createUnsupportedError(where, "normalizer", normalizer.type, "BertNormalizer or none (for WordPiece)");
  }
  createTokenLookup(vocabulary, `${where}: model.vocab`)(model.unk_token);
  const options = normalizer && validate(normalizerSchema, normalizer, `${where}: normalizer`);
  return {
    kind: "wordpiece",
    normalizer: options && { ...options, strip_accents: options.strip_accents ?? null },
    unkToken: model.unk_token,
    continuingPrefix: model.continuing_subword_prefix,
    maxCharacters: model.max_input_chars_per_word,
  };
}

function readBpe(value: unknown, normalizer: Component | null, preTokenizer: Component, where: string): ByteBpeModel {
  const model = validate(bpeSchema, value, `${where}: model`);
  const { add_prefix_space: addPrefixSpace, use_regex: regex } = validate(
    byteLevelSchema,
    preTokenizer,
    `${where}: pre_tokenizer`,
  );
  if (normalizer !== null) throw createUnsupportedError(where, "normalizer", normalizer.type, "none (for BPE)");
  if (!regex) throw createUnsupportedError(where, "pre_tokenizer.use_regex", false, "true");
  for (const option of ["dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"] as const) {
    if (model[option]) throw createUnsupportedError(where, `model.${option}`, model[option], "none");
  }
  return {
    kind: "byte-bpe",
    merges: model.merges.map((merge, rank) => readMerge(merge, `${where}: model.merges[${rank}]`)),
    unkToken: model.unk_token ?? null,
    fuseUnknown: model.fuse_unk,
    ignoreMerges: model.ignore_merges,
    addPrefixSpace,
  };
}

function readLayout(processor: Component | null, where: string): SequenceLayout {
  const place = `${where}: post_processor`;
  if (processor?.type === "BertProcessing" || processor?.type === "RobertaProcessing") {
    const { cls, sep } = validate(clsSepSchema, processor, place);
    return processor.type === "BertProcessing" ? createBertLayout(cls[1], sep[1]) : createRobertaLayout(cls[1], sep[1]);
  }
  if (processor?.type !== "TemplateProcessing") {
    throw createUnsupportedError(
      where,
      "post_processor",
      processor?.type,
      "TemplateProcessing, BertProcessing and RobertaProcessing",
    );
  }
  const template = validate(templateSchema, processor, place);
  const read = (name: "single" | "pair"): LayoutPart[] =>
    template[name].flatMap((part): LayoutPart[] => {
      if ("Sequence" in part) return [{ field: part.Sequence.id === "A" ? 0 : 1, type: part.Sequence.type_id }];
      const token = template.special_tokens[part.SpecialToken.id];
      if (token === undefined)
        throw new UserError(
          `${place}.${name}: ${JSON.stringify(part.SpecialToken.id)} is not among its special_tokens`,
        );
      return token.ids.map((number) => ({ token: number, type: part.SpecialToken.type_id }));
    });
  const layout = { single: read("single"), pair: read("pair") };
  for (const [name, fields] of [
    ["single", "0"],
    ["pair", "0,1"],
  ] as const) {
    const found = layout[name].flatMap((part) => ("field" in part ? [part.field] : [])).sort();
    const framed = "token" in (layout[name][0] ?? {}) && "token" in (layout[name].at(-1) ?? {});
    if (String(found) !== fields || !framed) {
      throw new UserError(
        `${place}.${name}: expected each text once, with a special token first and one last; use the tokenizer the encoder was trained with`,
      );
    }
  }
  return layout;
}

/** A sequence of one component is that component; those of the idle kind do nothing here. */
function unwrapSingle(value: Component | null | undefined, list: string, idle?: string): Component | null {
  if (value?.type !== "Sequence") return value ?? null;
  const inner = z
    .array(component)
    .safeParse(value[list])
    .data?.filter((item) => item.type !== idle);
  return inner?.length === 1 ? inner[0]! : value;
}

function createUnsupportedError(where: string, name: string, received: unknown, supported: string): UserError {
  return new UserError(
    `${where}: ${name}: ${received === undefined ? "none" : JSON.stringify(received)} is not supported here; supported: ${supported}. Use a BERT or RoBERTa tokenizer`,
  );
}
