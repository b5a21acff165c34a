import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { type AddedToken, addedTokenFields, tokenId } from "./added-tokens.js";
import type { LayoutPart, SequenceLayout } from "./encoding.js";
import {
  type Normalizer,
  type PreTokenizer,
  readNormalizers,
  readPreTokenizers,
  toSequence,
} from "./tokenizer-components.js";
import { readModel, type TokenizerModel, toModelJson } from "./tokenizer-model.js";

/** A checked tokenizer.json, or the same content from older files. */
export interface TokenizerFile {
  readonly addedTokens: readonly AddedToken[];
  readonly normalizers: readonly Normalizer[];
  readonly preTokenizers: readonly PreTokenizer[];
  readonly postProcessor: PostProcessor;
  readonly model: TokenizerModel;
}

/** The places of the special tokens, and whether offsets exclude the space before a word. */
export interface PostProcessor {
  readonly layout: SequenceLayout;
  /** Null if offsets include the space. */
  readonly trimOffsets: { readonly add_prefix_space: boolean } | null;
  /** The component as it is written in the file. */
  readonly json: object;
}

const component = z.looseObject({ type: z.string() });
type Component = z.output<typeof component>;

const fileSchema = z.looseObject({
  added_tokens: z.array(z.object({ id: tokenId, ...addedTokenFields })).default([]),
  post_processor: component.nullish(),
  model: z.looseObject({ type: z.string().optional(), vocab: z.unknown() }),
});

const namedToken = z.tuple([z.string(), tokenId]);
const clsSepSchema = z.looseObject({
  sep: namedToken,
  cls: namedToken,
  trim_offsets: z.boolean().default(true),
  add_prefix_space: z.boolean().default(true),
});
const byteLevelSchema = z.looseObject({
  trim_offsets: z.boolean().default(true),
  add_prefix_space: z.boolean().default(true),
});

const templatePart = z.union([
  z.object({ SpecialToken: z.object({ id: z.string(), type_id: tokenId }) }),
  z.object({ Sequence: z.object({ id: z.enum(["A", "B"]), type_id: tokenId }) }),
]);
const templateSchema = z.looseObject({
  single: z.array(templatePart),
  pair: z.array(templatePart),
  special_tokens: z.record(z.string(), z.looseObject({ ids: z.array(tokenId) })),
});

/** Checks tokenizer.json. Its padding and truncation settings are ignored. */
export function readTokenizerJson(data: unknown, source: string): TokenizerFile {
  const file = validate(fileSchema, data, source);
  return {
    addedTokens: file.added_tokens,
    normalizers: readNormalizers(file.normalizer, `${source}: normalizer`),
    preTokenizers: readPreTokenizers(file.pre_tokenizer, `${source}: pre_tokenizer`),
    postProcessor: readPostProcessor(file.post_processor ?? null, source),
    model: readModel(file.model, source),
  };
}

export function toTokenizerJson(file: TokenizerFile): object {
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: file.addedTokens.toSorted((a, b) => a.id - b.id),
    normalizer: toSequence("normalizers", file.normalizers),
    pre_tokenizer: toSequence("pretokenizers", file.preTokenizers),
    post_processor: file.postProcessor.json,
    decoder: null,
    model: toModelJson(file.model),
  };
}

function readPostProcessor(value: Component | null, source: string): PostProcessor {
  const location = `${source}: post_processor`;
  const all = value?.type === "Sequence" ? validate(z.array(component), value.processors, location) : [value];
  const processors = all.filter((item) => item !== null);
  const layouts = processors.filter(({ type }) => type !== "ByteLevel");
  const byteLevel = processors.find(({ type }) => type === "ByteLevel");
  const processor = layouts[0];
  if (layouts.length !== 1 || processor === undefined)
    throw createUnsupportedError(location, layouts.length === 0 ? "none" : "several");
  const trimmed = [byteLevel, processor.type === "RobertaProcessing" ? processor : undefined]
    .filter((item) => item !== undefined)
    .map((item) => validate(byteLevelSchema, item, location))
    .find((item) => item.trim_offsets);
  return {
    layout: readLayout(processor, location),
    trimOffsets: trimmed ? { add_prefix_space: trimmed.add_prefix_space } : null,
    json: value!,
  };
}

function readLayout(processor: Component, location: string): SequenceLayout {
  if (processor.type === "BertProcessing" || processor.type === "RobertaProcessing") {
    const { cls, sep } = validate(clsSepSchema, processor, location);
    return processor.type === "BertProcessing" ? createBertLayout(cls[1], sep[1]) : createRobertaLayout(cls[1], sep[1]);
  }
  if (processor.type !== "TemplateProcessing") throw createUnsupportedError(location, JSON.stringify(processor.type));
  const template = validate(templateSchema, processor, location);
  const read = (name: "single" | "pair"): LayoutPart[] =>
    template[name].flatMap((part): LayoutPart[] => {
      if ("Sequence" in part) return [{ field: part.Sequence.id === "A" ? 0 : 1, type: part.Sequence.type_id }];
      const { id } = part.SpecialToken;
      const token = Object.hasOwn(template.special_tokens, id) ? template.special_tokens[id] : undefined;
      if (token === undefined)
        throw new UserError(`${location}.${name}: ${JSON.stringify(id)} is missing in special_tokens.`);
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

/** Creates the layout [CLS] a [SEP] b [SEP], with type 1 for the second text. */
function createBertLayout(clsId: number, sepId: number): SequenceLayout {
  const single = [{ token: clsId, type: 0 }, { field: 0, type: 0 } as const, { token: sepId, type: 0 }];
  return { single, pair: [...single, { field: 1, type: 1 }, { token: sepId, type: 1 }] };
}

/** Creates the layout <s> a </s></s> b </s>, with type 0 for both texts. */
function createRobertaLayout(clsId: number, sepId: number): SequenceLayout {
  const { single } = createBertLayout(clsId, sepId);
  return { single, pair: [...single, { token: sepId, type: 0 }, { field: 1, type: 0 }, { token: sepId, type: 0 }] };
}

export function createBertProcessor(getId: (token: string) => number): PostProcessor {
  const [cls, sep] = ["[CLS]", "[SEP]"].map((token) => [token, getId(token)]);
  return readPostProcessor({ type: "BertProcessing", sep, cls }, "post_processor");
}

function createUnsupportedError(location: string, received: string): UserError {
  return new UserError(
    `${location}: ${received} is not supported. ` +
      "Supported: TemplateProcessing, BertProcessing and RobertaProcessing. Use the tokenizer of an encoder.",
  );
}
