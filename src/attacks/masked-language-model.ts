import { createHash } from "node:crypto";
import { hashModelFolder, type MaskedLm, predictAtPositions, type TokenPrediction } from "../models/index.js";
import type { EncodingWithOffsets } from "../text/encoding.js";
import type { MaskedLanguageModel, MaskedQuery, MaskedToken } from "./resources.js";

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
  };
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
