import { embedWords, forward, getFamily, toModelInput } from "../models/index.js";
import { evalMode, mapWeights } from "../nn/index.js";
import { crossEntropyLoss, type Device, grad, noGrad, scope, type Tensor, tensor, topk } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import { isOneWord, locateWords } from "../text/find-words.js";
import type { GradientQuery, GradientSource, GradientVictim, TokenGradient } from "./resources.js";

type GradientModel = Omit<GradientVictim, "hashes">;

/** Texts per batch, few enough for the activations of a backward pass. */
const batchSize = 16;
/** `reduction` code of libtorch's cross-entropy. */
const sumReduction = 2;
/** Subtracted from the estimates of tokens that are not words. */
const excluded = 1e30;

/** A part of a text that a token covers; null for special tokens. */
type TokenRange = Pick<TokenGradient, "field" | "start" | "end"> | null;

/** Computes gradients of the loss without dropout, in batches. */
export function createGradientSource(victim: GradientModel): GradientSource {
  let penalties: Float32Array | undefined;
  return {
    name: "gradients",
    kind: "gradient",
    async compute(queries) {
      const answers: (readonly TokenGradient[])[] = [];
      for (let start = 0; start < queries.length; start += batchSize) {
        const batch = queries.slice(start, start + batchSize);
        if (batch.some(({ flips }) => flips > 0)) penalties ??= findPenalties(victim);
        answers.push(...computeBatch(victim, batch, penalties));
        await new Promise(setImmediate);
      }
      return answers;
    },
  };
}

function computeBatch(
  { model, weights, device }: GradientModel,
  queries: readonly GradientQuery[],
  penalties: Float32Array | undefined,
): (readonly TokenGradient[])[] {
  const { config, numLabels } = model.architecture;
  const encoded = queries.map(({ texts }) => encode(model, texts));
  const flips = Math.max(...queries.map((query) => query.flips));
  return scope(() => {
    const padded = padBatch(
      encoded.map(({ encoding }) => encoding),
      model.tokenizer.special.padId,
    );
    const input = toModelInput(padded, config, device);
    const frozen = mapWeights(weights, (weight) => weight.detach());
    const wordEmbeddings = noGrad(() => embedWords(config, frozen, input.inputIds))
      .detach()
      .requiresGrad_();
    const { attentionBias, tokenTypeIds = null } = input;
    const { logits } = forward(model.architecture, frozen, { wordEmbeddings, attentionBias, tokenTypeIds }, evalMode);
    const predicted = logits.argmax(-1).toInt32Array();
    const labels = Int32Array.from(queries, ({ label }, i) => Math.min(label ?? predicted[i]!, numLabels - 1));
    const loss = crossEntropyLoss(logits, tensor(labels, undefined, { device }), null, sumReduction, -100, 0);
    const [gradient] = grad(loss, [wordEmbeddings]) as [Tensor];
    return noGrad(() => {
      const norms = gradient.abs().sum([-1]).toFloat32Array();
      const table = frozen.get(`${getFamily(config).wordEmbeddings}.weight`)!;
      const words = flips > 0 ? rankFlips(model, gradient, table, penalties!, flips, device) : null;
      return encoded.map(({ ranges }, row) =>
        ranges.flatMap((range, column) => {
          const index = row * padded.sequenceLength + column;
          return range === null ? [] : [{ ...range, norm: norms[index]!, flips: words?.[index] ?? [] }];
        }),
      );
    });
  });
}

/** The tokens v with the largest E(v) * gradient, for every token of the batch. */
function rankFlips(
  model: GradientModel["model"],
  gradient: Tensor,
  table: Tensor,
  penalties: Float32Array,
  flips: number,
  device: Device,
): string[][] {
  const width = table.size(1);
  const scores = gradient
    .reshape(-1, width)
    .matmul(table.transpose(0, 1))
    .sub(tensor(penalties, undefined, { device }));
  const [, ids] = topk(scores, flips, -1);
  const all = ids.to("int32").toInt32Array();
  return Array.from({ length: all.length / flips }, (_, i) =>
    model.tokenizer.idsToTokens(all.subarray(i * flips, (i + 1) * flips)).map(removeSpaceMark),
  );
}

/** Tokens that start a word in byte-level and SentencePiece vocabularies have a mark. */
function removeSpaceMark(token: string): string {
  return token.replace(/^[Ġ▁]/u, "");
}

/** Excludes tokens that are not words: special tokens, pieces, punctuation. */
function findPenalties({ model, weights }: GradientModel): Float32Array {
  const { tokenizer, architecture } = model;
  const tokens = tokenizer.idsToTokens(Int32Array.from({ length: tokenizer.vocabSize }, (_, id) => id));
  const hasSpaceMarks = tokens.some((token) => /^[Ġ▁]./u.test(token));
  const count = weights.get(`${getFamily(architecture.config).wordEmbeddings}.weight`)!.size(0);
  const isWord = (token: string | undefined): boolean => {
    if (token === undefined || (hasSpaceMarks && !/^[Ġ▁]/u.test(token))) return false;
    const word = removeSpaceMark(token);
    return /[a-z]/i.test(word) && isOneWord(word);
  };
  return Float32Array.from({ length: count }, (_, id) => (isWord(tokens[id]) ? 0 : excluded));
}

function encode(
  { tokenizer, tokenization, maxLength }: GradientModel["model"],
  texts: readonly string[],
): { readonly encoding: Encoding; readonly ranges: readonly TokenRange[] } {
  if (tokenization === "subword") {
    const encoding = tokenizer.encodeWithOffsets(texts, maxLength);
    // The second special token ends the first field.
    let specials = 0;
    const ranges = encoding.offsets.map(([start, end]): TokenRange => {
      if (start === end) specials++;
      return start === end ? null : { field: specials > 1 ? 1 : 0, start, end };
    });
    return { encoding, ranges };
  }
  const encoding = tokenizer.encodeWords(texts, maxLength);
  const ranges = new Array<TokenRange>(encoding.ids.length).fill(null);
  for (const [i, place] of locateWords(texts, encoding.words, encoding.fields).entries())
    ranges[encoding.positions[i]!] = place;
  return { encoding, ranges };
}
