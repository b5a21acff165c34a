import { createHash } from "node:crypto";
import {
  hashModelFolder,
  type MaskedLm,
  predictAtPositions,
  scoreTokens,
  type TokenPrediction,
  type TokenQuery,
} from "../models/index.js";
import type { EncodingWithOffsets } from "../text/encoding.js";
import { computeOnce } from "./requests.js";
import type { MaskedLanguageModel, MaskedQuery, MaskedToken, WordQuery } from "./resources.js";

/** Tokens per position: twice as many as any recipe uses, because some are not words. */
const topK = 100;
/** Characters on each side that the model reads. More than most models can read is not needed. */
const maxContext = 1200;
/** Answers that are kept. */
const maxKept = 10_000;

/** Creates the resource of recipes that use a masked language model. */
export async function createMaskedLanguageModel(model: MaskedLm): Promise<MaskedLanguageModel> {
  const [maskToken] = model.tokenizer.idsToTokens([model.maskId]);
  const hash = await hashModelFolder(model.folder);
  const cut = (query: MaskedQuery): Window & Pick<MaskedQuery, "isMasked"> => {
    const { isMasked } = query;
    const window = cutWindow(query);
    return { ...window, middle: isMasked ? maskToken! : window.middle, isMasked };
  };
  return {
    name: model.reference,
    kind: "mlm",
    hash: createHash("sha256").update(`${hash} mlm`).digest("hex"),
    compute: computeOnce(
      (query) => getKey(cut(query)),
      (queries) => predict(model, queries.map(cut)),
      maxKept,
    ),
    likelihood: {
      name: `likelihood by ${model.reference}`,
      kind: "mlm",
      compute: computeOnce(
        (query) => getKey(cutWindow(query)),
        (queries) => scoreWords(model, queries.map(cutWindow)),
        maxKept,
      ),
    },
  };
}

function scoreWords(model: MaskedLm, windows: readonly Window[]): number[] {
  const queries: (TokenQuery & { readonly word: number })[] = [];
  for (const [word, { before, middle, after }] of windows.entries()) {
    const encoding = model.tokenizer.encodeWithOffsets([before + middle + after], model.maxLength);
    const positions = findTokens(encoding, before.length, before.length + middle.length);
    const ids = encoding.ids.map((id, i) => (positions.includes(i) ? model.maskId : id));
    for (const position of positions)
      queries.push({ word, encoding: { ...encoding, ids }, position, candidateIds: [encoding.ids[position]!] });
  }
  const sums = windows.map(() => 0);
  for (const [i, [value]] of scoreTokens(model, queries).entries()) sums[queries[i]!.word]! += value!;
  return sums;
}

interface Window {
  readonly before: string;
  readonly middle: string;
  readonly after: string;
}

function cutWindow({ text, start, end }: WordQuery): Window {
  return {
    before: text.slice(Math.max(0, start - maxContext), start),
    middle: text.slice(start, end),
    after: text.slice(end, end + maxContext),
  };
}

function getKey({ before, middle, after }: Window): string {
  return [before, middle, after].join("\0");
}

function predict(
  model: MaskedLm,
  windows: readonly (Window & Pick<MaskedQuery, "isMasked">)[],
): (readonly (readonly MaskedToken[])[])[] {
  const { tokenizer, maskId, maxLength } = model;
  const isMarked = tokenizer.idsToTokens([0, 1, 2, 3]).some((token) => token.startsWith("<"));
  const queries = windows.map(({ before, middle, after, isMasked }) => {
    const encoding = tokenizer.encodeWithOffsets([before + middle + after], maxLength);
    const positions = isMasked
      ? [...encoding.ids.keys()].filter((position) => encoding.ids[position] === maskId)
      : findTokens(encoding, before.length, before.length + middle.length);
    return { encoding, positions };
  });
  return predictAtPositions(model, queries, topK).map((lists) =>
    lists.map((list) => list.map((prediction) => toMaskedToken(prediction, isMarked))),
  );
}

function findTokens({ offsets }: EncodingWithOffsets, start: number, end: number): number[] {
  return offsets.flatMap(([from, to], i) => (to > from && from < end && to > start ? [i] : []));
}

/** Vocabularies mark the pieces of words (##ing), or the beginnings of words (Ġgood, ▁good). */
function toMaskedToken({ token, probability }: TokenPrediction, marksBeginnings: boolean): MaskedToken {
  const isPiece = token.startsWith("##") || (marksBeginnings && !/^[Ġ▁]/u.test(token));
  return { word: token.replace(/^(?:##|[Ġ▁])/u, ""), isPiece, probability };
}
