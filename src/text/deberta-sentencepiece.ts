import { join } from "node:path";
import protobuf from "protobufjs/minimal.js";
import { UserError } from "../base/errors.js";
import { readBytes } from "../base/files.js";
import { type AddedToken, createSpecialToken, createTokenLookup } from "./added-tokens.js";
import { readNormalizers, readPreTokenizers, toSequence } from "./tokenizer-components.js";
import type { TokenizerConfig } from "./tokenizer-config.js";
import { createBertProcessor, type TokenizerFile } from "./tokenizer-file.js";

/** The SentencePiece model of DeBERTa-v2 and v3, which are published without tokenizer.json. */
export const sentencePieceFile = "spm.model";

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
function parseSentencePiece(bytes: Uint8Array): { readonly pieces: readonly Piece[]; readonly modelType: number } {
  const pieces: Piece[] = [];
  let modelType = UNIGRAM;
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
  });
  return { pieces, modelType };
}

const specialTokens = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"];

/** Reads the SentencePiece model as transformers does: without its character map. */
export async function readSentencePiece(folder: string, { options }: TokenizerConfig): Promise<TokenizerFile> {
  const path = join(folder, sentencePieceFile);
  const pieces = parseChecked(await readBytes(path, "the tokenizer", { kind: "tokenizer" }), path);
  const vocabulary = new Map(pieces.map(({ piece }, id) => [piece, id]));
  const getId = createTokenLookup(vocabulary, path);
  const normalizers = [
    ...(options.do_lower_case ? [{ type: "Lowercase" }] : []),
    { type: "Replace", pattern: { Regex: "\\s{2,}|[\\n\\r\\t]" }, content: " " },
    { type: "NFC" },
    { type: "Strip", strip_left: false, strip_right: true },
  ];
  const preTokenizers = [
    ...(options.split_by_punct ? [{ type: "Punctuation", behavior: "Isolated" }] : []),
    { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true },
  ];
  return {
    addedTokens: listAddedTokens(pieces, vocabulary),
    // Read them as from tokenizer.json, so a saved tokenizer has the same hash.
    normalizers: readNormalizers(toSequence("normalizers", normalizers), path),
    preTokenizers: readPreTokenizers(toSequence("pretokenizers", preTokenizers), path),
    postProcessor: createBertProcessor(getId),
    model: {
      type: "Unigram",
      vocabulary,
      unk_id: getId("[UNK]"),
      byte_fallback: false,
      scores: pieces.map(({ score }) => score),
      pieces: pieces.map(({ piece }) => piece),
    },
  };
}

function parseChecked(bytes: Uint8Array, path: string): readonly Piece[] {
  const damaged = `${path}: this is not a SentencePiece model, or it is damaged. Download it again.`;
  let model: ReturnType<typeof parseSentencePiece>;
  try {
    model = parseSentencePiece(bytes);
  } catch (error) {
    throw new UserError(damaged, { cause: error });
  }
  const { pieces, modelType } = model;
  const isValid = pieces.every(({ piece, score }) => piece !== "" && Number.isFinite(score));
  const hasDoubles = new Set(pieces.map(({ piece }) => piece)).size < pieces.length;
  if (pieces.length === 0 || !isValid || hasDoubles) throw new UserError(damaged);
  if (modelType !== UNIGRAM)
    throw new UserError(
      `${path}: expected a Unigram model, received model type ${modelType}. Save tokenizer.json with transformers.`,
    );
  return pieces;
}

/** Lists the special tokens, and the pieces that SentencePiece never splits. */
function listAddedTokens(pieces: readonly Piece[], vocabulary: ReadonlyMap<string, number>): AddedToken[] {
  const unsplit = pieces.filter(({ type }) => type === CONTROL || type === USER_DEFINED);
  const tokens = new Map(
    // The mask token is not in the SentencePiece model. It gets the next ID.
    specialTokens.map((token) => [token, createSpecialToken(token, vocabulary.get(token) ?? vocabulary.size)]),
  );
  for (const { piece, type } of unsplit)
    if (!tokens.has(piece))
      tokens.set(piece, { ...createSpecialToken(piece, vocabulary.get(piece)!), special: type === CONTROL });
  return [...tokens.values()].sort((a, b) => a.id - b.id);
}
