import { join } from "node:path";
import protobuf from "protobufjs/minimal.js";
import { UserError } from "../base/errors.js";
import { readBytes } from "../base/files.js";
import { type AddedToken, createSpecialToken, createTokenLookup } from "./added-tokens.js";
import { checkCharsmap } from "./charsmap.js";
import {
  type Normalizer,
  type PreTokenizer,
  readNormalizers,
  readPreTokenizers,
  toSequence,
} from "./tokenizer-components.js";
import type { TokenizerConfig } from "./tokenizer-config.js";
import { createBertProcessor, createRobertaProcessor, type TokenizerFile } from "./tokenizer-file.js";

/** The names of SentencePiece models. */
export const sentencePieceFiles: readonly string[] = ["spiece.model", "sentencepiece.bpe.model", "spm.model"];

/** The types of pieces in a SentencePiece model. */
const CONTROL = 3;
const USER_DEFINED = 4;
/** The model type of Unigram in a SentencePiece model. */
const UNIGRAM = 1;

interface Piece {
  readonly piece: string;
  readonly score: number;
  readonly type: number;
}

interface SentencePieceModel {
  readonly pieces: readonly Piece[];
  readonly modelType: number;
  readonly charsmap: Uint8Array;
}

/** Reads the fields of a message. Fields without a handler are skipped. */
function readFields(bytes: Uint8Array, handlers: Readonly<Record<number, (reader: protobuf.Reader) => void>>): void {
  const reader = protobuf.Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const handler = handlers[tag >>> 3];
    if (handler) handler(reader);
    else reader.skipType(tag & 7);
  }
}

/** Parses a SentencePiece model. It is a protocol buffer; the numbers are those of its schema. */
function parseSentencePiece(bytes: Uint8Array): SentencePieceModel {
  const pieces: Piece[] = [];
  let modelType = UNIGRAM;
  let charsmap: Uint8Array = new Uint8Array();
  readFields(bytes, {
    1: (reader) => {
      const piece = { piece: "", score: 0, type: 1 };
      readFields(reader.bytes(), {
        1: (field) => {
          piece.piece = field.string();
        },
        2: (field) => {
          piece.score = field.float();
        },
        3: (field) => {
          piece.type = field.int32();
        },
      });
      pieces.push(piece);
    },
    2: (reader) =>
      readFields(reader.bytes(), {
        3: (field) => {
          modelType = field.int32();
        },
      }),
    3: (reader) =>
      readFields(reader.bytes(), {
        2: (field) => {
          charsmap = field.bytes();
        },
      }),
  });
  return { pieces, modelType, charsmap };
}

type ScoredPiece = readonly [piece: string, score: number];

/** The use of a SentencePiece model by a family. */
interface Family {
  /** Creates the vocabulary, in order of IDs. */
  readonly createVocabulary: (pieces: readonly ScoredPiece[]) => readonly ScoredPiece[];
  readonly special: { readonly cls: string; readonly sep: string; readonly pad: string; readonly mask: string };
  readonly unkToken: string;
  readonly isMaskStripped: boolean;
  readonly createProcessor: typeof createBertProcessor;
  readonly createNormalizers: (charsmap: readonly Normalizer[], options: TokenizerConfig["options"]) => Normalizer[];
  readonly createPreTokenizers: (options: TokenizerConfig["options"]) => PreTokenizer[];
}

const metaspace = { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true } as const;
const splitAtSpaces = (): PreTokenizer[] => [{ type: "WhitespaceSplit" }, metaspace];
const bertTokens = { cls: "[CLS]", sep: "[SEP]", mask: "[MASK]" };
const robertaTokens = { cls: "<s>", sep: "</s>", pad: "<pad>", mask: "<mask>" };
const createProcessor: typeof createBertProcessor = (cls, sep) =>
  createRobertaProcessor(cls, sep, { trim_offsets: false, add_prefix_space: true });
const zero = (piece: string): ScoredPiece => [piece, 0];
const replace = (pattern: string): Normalizer => ({ type: "Replace", pattern: { String: pattern }, content: '"' });

/** The families of transformers with a SentencePiece model, by model type. */
const families: Readonly<Record<string, Family>> = {
  "xlm-roberta": {
    createVocabulary: (pieces) => [...["<s>", "<pad>", "</s>", "<unk>"].map(zero), ...pieces.slice(3), ["<mask>", 0]],
    special: robertaTokens,
    unkToken: "<unk>",
    isMaskStripped: false,
    createProcessor,
    createNormalizers: (charsmap) => [...charsmap],
    createPreTokenizers: splitAtSpaces,
  },
  camembert: {
    createVocabulary: (pieces) => [
      ...["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>"].map(zero),
      ["<unk>NOTUSED", -100],
      ...pieces.slice(1),
      ["<mask>", 0],
    ],
    special: robertaTokens,
    unkToken: "<unk>",
    isMaskStripped: true,
    createProcessor,
    createNormalizers: (charsmap) => [...charsmap],
    createPreTokenizers: splitAtSpaces,
  },
  albert: {
    createVocabulary: (pieces) => pieces,
    special: { ...bertTokens, pad: "<pad>" },
    unkToken: "<unk>",
    isMaskStripped: false,
    createProcessor: createBertProcessor,
    createNormalizers: (charsmap, { do_lower_case: lowercase, keep_accents: keepAccents }) => [
      replace("``"),
      replace("''"),
      ...(keepAccents ? [] : ([{ type: "NFKD" }, { type: "StripAccents" }] as const)),
      ...(lowercase === false ? [] : ([{ type: "Lowercase" }] as const)),
      ...charsmap,
    ],
    createPreTokenizers: splitAtSpaces,
  },
  "deberta-v2": {
    createVocabulary: (pieces) => pieces,
    special: { ...bertTokens, pad: "[PAD]" },
    unkToken: "[UNK]",
    isMaskStripped: false,
    createProcessor: createBertProcessor,
    // Like transformers, without the character map of the model.
    createNormalizers: (_charsmap, { do_lower_case: lowercase }) => [
      ...(lowercase ? ([{ type: "Lowercase" }] as const) : []),
      { type: "Replace", pattern: { Regex: "\\s{2,}|[\\n\\r\\t]" }, content: " " },
      { type: "NFC" },
      { type: "Strip", strip_left: false, strip_right: true },
    ],
    createPreTokenizers: ({ split_by_punct: splitByPunctuation }) => [
      ...(splitByPunctuation ? ([{ type: "Punctuation", behavior: "Isolated" }] as const) : []),
      metaspace,
    ],
  },
};

/** The names of tokenizer classes begin with these, by model type. */
const classNames: readonly (readonly [RegExp, string])[] = [
  [/^XLMRoberta/, "xlm-roberta"],
  [/^Camembert/, "camembert"],
  [/^Albert/, "albert"],
  [/^DebertaV2/, "deberta-v2"],
];

/** Reads a SentencePiece model. Its special tokens depend on the family of the encoder. */
export async function readSentencePiece(folder: string, name: string, config: TokenizerConfig): Promise<TokenizerFile> {
  const path = join(folder, name);
  const bytes = await readBytes(path, "the tokenizer", { kind: "tokenizer" });
  const tokenizerClass = config.options.tokenizer_class ?? "";
  const modelType = classNames.find(([pattern]) => pattern.test(tokenizerClass))?.[1] ?? config.modelType ?? "";
  const family = Object.hasOwn(families, modelType) ? families[modelType] : undefined;
  if (family === undefined)
    throw new UserError(
      `${path}: the model type ${JSON.stringify(modelType)} has no known special tokens. Expected one of ` +
        `${Object.keys(families).join(", ")} in config.json. Otherwise save tokenizer.json with transformers.`,
    );
  const model = parseChecked(bytes, path);
  const scored = family.createVocabulary(model.pieces.map(({ piece, score }) => [piece, score]));
  const vocabulary = new Map(scored.map(([piece], id) => [piece, id]));
  const getId = createTokenLookup(vocabulary, path);
  const getToken = (token: string): [string, number] => [token, getId(token)];
  const charsmap: Normalizer[] =
    model.charsmap.length === 0
      ? []
      : [{ type: "Precompiled", precompiled_charsmap: Buffer.from(model.charsmap).toString("base64") }];
  return {
    addedTokens: listAddedTokens(family, model.pieces, vocabulary),
    // Read them as from tokenizer.json, so a saved tokenizer has the same hash.
    normalizers: readNormalizers(toSequence("normalizers", family.createNormalizers(charsmap, config.options)), path),
    preTokenizers: readPreTokenizers(toSequence("pretokenizers", family.createPreTokenizers(config.options)), path),
    postProcessor: family.createProcessor(getToken(family.special.cls), getToken(family.special.sep)),
    model: {
      type: "Unigram",
      vocabulary,
      unk_id: getId(family.unkToken),
      byte_fallback: false,
      scores: scored.map(([, score]) => score),
      pieces: scored.map(([piece]) => piece),
    },
  };
}

function parseChecked(bytes: Uint8Array, path: string): SentencePieceModel {
  const damaged = `${path}: this is not a SentencePiece model, or it is damaged. Download it again.`;
  let model: SentencePieceModel;
  try {
    model = parseSentencePiece(bytes);
  } catch (error) {
    throw new UserError(damaged, { cause: error });
  }
  const { pieces, charsmap, modelType } = model;
  const isValid = pieces.every(({ piece, score }) => piece !== "" && Number.isFinite(score));
  if (pieces.length === 0 || !isValid) throw new UserError(damaged);
  if (charsmap.length > 0 && checkCharsmap(Buffer.from(charsmap)) !== null) throw new UserError(damaged);
  if (modelType !== UNIGRAM)
    throw new UserError(
      `${path}: expected a Unigram model, received model type ${modelType}. Save tokenizer.json with transformers.`,
    );
  return model;
}

/** Lists the special tokens, and the pieces that SentencePiece never splits. */
function listAddedTokens(
  { special, unkToken, isMaskStripped }: Family,
  pieces: readonly Piece[],
  vocabulary: ReadonlyMap<string, number>,
): AddedToken[] {
  const tokens = new Map<string, AddedToken>();
  // DeBERTa's mask token is not in the SentencePiece model. It gets the next ID.
  const add = (content: string, isSpecial: boolean): void => {
    const id = vocabulary.get(content) ?? vocabulary.size;
    const token = createSpecialToken(content, id, isMaskStripped && content === special.mask);
    if (!tokens.has(content)) tokens.set(content, { ...token, special: isSpecial });
  };
  for (const content of [...Object.values(special), unkToken]) add(content, true);
  for (const { piece, type } of pieces)
    if ((type === CONTROL || type === USER_DEFINED) && vocabulary.has(piece)) add(piece, type === CONTROL);
  return [...tokens.values()].sort((a, b) => a.id - b.id);
}
