import { createHash } from "node:crypto";
import {
  hashModelFolder,
  type MaskedLm,
  predictAtPositions,
  scorePositions,
  scoreTokens,
  type TokenPrediction,
  type TokenQuery,
} from "../models/index.js";
import type { EncodingWithOffsets } from "../text/encoding.js";
import type { Resource } from "./requests.js";
import type { MaskedLanguageModel, MaskedQuery, MaskedToken, WordQuery } from "./resources.js";

/** Tokens per position: twice as many as any recipe uses, because some are not words. */
const topK = 100;
/** Characters on each side that the model reads. More than most models can read is not needed. */
const maxContext = 1200;
/** Answers that are kept. */
const maxCached = 10_000;

/** Creates the resource of recipes that use a masked language model. */
export async function createMaskedLanguageModel(model: MaskedLm): Promise<MaskedLanguageModel> {
  const cache = new Map<string, readonly (readonly MaskedToken[])[]>();
  const [maskToken] = model.tokenizer.idsToTokens([model.maskId]);
  const hash = await hashModelFolder(model.folder);
  return {
    name: model.reference,
    kind: "mlm",
    hash: createHash("sha256").update(`${hash} mlm`).digest("hex"),
    async compute(queries) {
      const keys = queries.map(({ text, start, end, isMasked }) => {
        const window = cutWindow(text, start, end);
        const middle = isMasked ? maskToken! : window.middle;
        return { ...window, middle, isMasked, key: [window.before, middle, window.after].join("\0") };
      });
      const unknown = new Map(keys.filter(({ key }) => !cache.has(key)).map((each) => [each.key, each]));
      const found = predict(model, [...unknown.values()]);
      const fresh = new Map([...unknown.keys()].map((key, i) => [key, found[i]!]));
      const answers = keys.map(({ key }) => fresh.get(key) ?? cache.get(key)!);
      if (cache.size > maxCached) cache.clear();
      for (const [key, answer] of fresh) cache.set(key, answer);
      return answers;
    },
    likelihood: createLikelihood(model),
    measureFluency: (texts) => measureFluency(model, texts),
  };
}

/** Scores words; every distinct word in its text is scored once. */
function createLikelihood(model: MaskedLm): Resource<WordQuery, number> {
  const cache = new Map<string, number>();
  return {
    name: `likelihood by ${model.reference}`,
    kind: "mlm",
    async compute(queries) {
      const windows = queries.map(({ text, start, end }) => cutWindow(text, start, end));
      const keys = windows.map(({ before, middle, after }) => [before, middle, after].join("\0"));
      const unknown = new Map(keys.map((key, i) => [key, windows[i]!] as const).filter(([key]) => !cache.has(key)));
      if (cache.size > maxCached) cache.clear();
      const found = scoreWords(model, [...unknown.values()]);
      const fresh = new Map([...unknown.keys()].map((key, i) => [key, found[i]!]));
      const answers = keys.map((key) => fresh.get(key) ?? cache.get(key)!);
      for (const [key, value] of fresh) cache.set(key, value);
      return answers;
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

/** Tokens of a text that are scored. Longer texts are cut. */
const maxFluencyTokens = 128;
/** Every seventh token is masked in the same pass, as many as in training. */
const fluencyStride = 7;

async function measureFluency(model: MaskedLm, texts: readonly string[]): Promise<number[]> {
  const means: number[] = [];
  for (const text of texts) {
    const encoding = model.tokenizer.encodeWithOffsets([text], Math.min(model.maxLength, maxFluencyTokens));
    const positions = encoding.offsets.flatMap(([start, end], i) => (end > start ? [i] : []));
    const queries = Array.from({ length: fluencyStride }, (_, first) => {
      const masked = positions.filter((_, i) => i % fluencyStride === first);
      const ids = encoding.ids.map((id, position) => (masked.includes(position) ? model.maskId : id));
      return { encoding: { ...encoding, ids }, positions: masked, targetIds: masked.map((i) => encoding.ids[i]!) };
    }).filter((query) => query.positions.length > 0);
    const total = scorePositions(model, queries)
      .flat()
      .reduce((sum, value) => sum + value, 0);
    means.push(positions.length === 0 ? 0 : total / positions.length);
    // Other work of the process can run between texts.
    await new Promise(setImmediate);
  }
  return means;
}

interface Window {
  readonly before: string;
  readonly middle: string;
  readonly after: string;
}

function cutWindow(text: string, start: number, end: number): Window {
  return {
    before: text.slice(Math.max(0, start - maxContext), start),
    middle: text.slice(start, end),
    after: text.slice(end, end + maxContext),
  };
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
