import { UserError } from "../base/errors.js";
import { evalMode, type ForwardMode, getParameter, type Weights } from "../nn/index.js";
import { linear, noGrad, scope, type Tensor, tensor, topk } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding, Tokenizer } from "../text/encoding.js";
import { loadTokenizer } from "../text/tokenizer.js";
import { openCheckpoint } from "./checkpoint/checkpoint.js";
import {
  type CheckpointNames,
  mapCheckpointNames,
  type ReadWeightsOptions,
  readWeights,
} from "./checkpoint/read-weights.js";
import { resolveModel } from "./checkpoint/resolve-model.js";
import { readModelConfig } from "./config.js";
import { type EncoderInput, getEncoderParameterShapes } from "./encoder.js";
import type { EncoderConfig, ParameterShapes } from "./families/family.js";
import { getFamily } from "./families/index.js";
import { batchForInference } from "./inference/inference-batches.js";
import { encodeInput } from "./model.js";
import { toModelInput } from "./model-input.js";

/** Computes the logits of a masked language model: [..., hidden] -> [..., vocabulary]. */
function applyMaskedLmHead(config: EncoderConfig, weights: Weights, hidden: Tensor): Tensor {
  const family = getFamily(config);
  const { decoder, bias, transform } = family.maskedLm(config);
  const matrix = getParameter(weights, `${config.tieWordEmbeddings ? family.wordEmbeddings : decoder}.weight`);
  return linear(transform(weights, hidden), matrix, bias === null ? null : getParameter(weights, bias));
}

export function getMaskedLmParameterShapes(config: EncoderConfig): ParameterShapes {
  const { decoder, bias, shapes } = getFamily(config).maskedLm(config);
  const all = new Map(shapes);
  if (!config.tieWordEmbeddings) all.set(`${decoder}.weight`, [config.vocabSize, config.embeddingSize]);
  if (bias !== null) all.set(bias, [config.vocabSize]);
  return all;
}

export interface MaskedLm {
  readonly config: EncoderConfig;
  /** Leaf tensors in float32 that live until `free`. */
  readonly weights: Weights;
  readonly tokenizer: Tokenizer;
  readonly maskId: number;
  readonly maxLength: number;
  readonly folder: string;
  readonly reference: string;
}

/**
 * Loads a masked language model: a folder, npm:PACKAGE or a Hugging Face model ID.
 *
 * @example
 * const model = await loadMaskedLm("bert-base-uncased");
 * const encoding = model.tokenizer.encode(["A [MASK] film."], 16);
 * const [tokens] = predictAtPositions(model, [{ encoding, positions: [2] }], 5)[0]!;
 */
export async function loadMaskedLm(reference: string, options: ReadWeightsOptions = {}): Promise<MaskedLm> {
  const { folder } = await resolveModel(reference);
  const config = await readModelConfig(folder);
  const tokenizer = await loadTokenizer(folder);
  const { maskId } = tokenizer.special;
  if (maskId === null)
    throw new UserError(`${reference}: the tokenizer has no mask token, so this is not a masked language model.`);
  if (tokenizer.vocabSize > config.vocabSize)
    throw new UserError(
      `${reference}: the tokenizer has ${tokenizer.vocabSize} tokens, but vocab_size is ${config.vocabSize}. ` +
        "tokenizer.json and config.json do not belong together.",
    );
  const checkpoint = await openCheckpoint(folder);
  try {
    const names = mapCheckpointNames(config, [checkpoint]);
    addBiasAlias(config, names);
    const headShapes = getMaskedLmParameterShapes(config);
    const missing = [...headShapes.keys()].filter((name) => !names.has(name));
    if (missing.length > 0)
      throw new UserError(
        `${reference} has no head of a masked language model: the checkpoint lacks ${missing[0]}. ` +
          "Use a checkpoint for masked language modeling.",
      );
    const shapes = new Map([...getEncoderParameterShapes(config), ...headShapes]);
    const { weights } = readWeights(config, shapes, names, options);
    const { maxLength } = config;
    return { config, weights, tokenizer, maskId, maxLength, folder, reference };
  } finally {
    await checkpoint.close();
  }
}

/** The bias of the decoder has two names in checkpoints. An untied decoder uses its own. */
function addBiasAlias(config: EncoderConfig, names: CheckpointNames): void {
  const { decoder, bias } = getFamily(config).maskedLm(config);
  const alias = names.get(`${decoder}.bias`);
  if (bias !== null && alias && (!names.has(bias) || !config.tieWordEmbeddings)) names.set(bias, alias);
}

/** The logits of tokens, whose positions are indices in the flattened batch [batch * length]. */
export function predictTokens(
  config: EncoderConfig,
  weights: Weights,
  input: EncoderInput,
  positions: Tensor,
  mode: ForwardMode,
): Tensor {
  const states = encodeInput(config, weights, input, mode, "all").reshape(-1, config.hiddenSize);
  return applyMaskedLmHead(config, weights, states.indexSelect(0, positions)).to("float32");
}

export interface TokenPrediction {
  readonly id: number;
  readonly token: string;
  readonly probability: number;
}

export interface TokenQuery {
  readonly encoding: Encoding;
  readonly position: number;
  readonly candidateIds: ArrayLike<number>;
}

/** Computes log p(candidate | text) at one position per text, where it normally has a mask. */
export function scoreTokens(model: MaskedLm, queries: readonly TokenQuery[]): Float32Array[] {
  const rows = new Array<Float32Array>(queries.length);
  const texts = queries.map(({ encoding, position }) => ({ encoding, positions: [position] }));
  forEachBatch(model, texts, (logits, sources) => {
    const logProbabilities = logits.logSoftmax(-1);
    for (const [row, { index }] of sources.entries()) {
      const ids = tensor(Int32Array.from(queries[index]!.candidateIds), undefined, { device: logits.device });
      rows[index] = scope(() => logProbabilities.select(0, row).indexSelect(0, ids).toFloat32Array());
    }
  });
  return rows;
}

export function predictAtPositions(
  model: MaskedLm,
  queries: readonly { readonly encoding: Encoding; readonly positions: readonly number[] }[],
  topK: number,
): (readonly TokenPrediction[])[][] {
  const { tokenizer } = model;
  const result: (readonly TokenPrediction[])[][] = queries.map(() => []);
  const k = Math.min(topK, tokenizer.vocabSize);
  forEachBatch(model, queries, (logits, sources) => {
    // Rows of the table beyond the vocabulary only fill it up to a round size.
    const known = logits.softmax(-1).narrow(1, 0, tokenizer.vocabSize);
    const [values, ids] = topk(known, k, -1);
    const probabilities = values.toFloat32Array();
    const allIds = ids.to("float32").toFloat32Array();
    for (const [row, { index, place }] of sources.entries()) {
      const rowIds = allIds.slice(row * k, (row + 1) * k);
      result[index]![place] = tokenizer
        .idsToTokens(rowIds)
        .map((token, i) => ({ id: rowIds[i]!, token, probability: probabilities[row * k + i]! }));
    }
  });
  return result;
}

function forEachBatch(
  { config, weights, tokenizer }: MaskedLm,
  queries: Parameters<typeof predictAtPositions>[1],
  visit: (logits: Tensor, sources: readonly { readonly index: number; readonly place: number }[]) => void,
): void {
  const encodings = queries.map(({ encoding }) => encoding);
  const { device } = weights.values().next().value!;
  for (const batch of batchForInference(encodings, device)) {
    const texts = batch.map((index) => encodings[index]!);
    const padded = padBatch(texts, tokenizer.special.padId);
    const sources: { index: number; place: number }[] = [];
    const flat: number[] = [];
    for (const [row, index] of batch.entries())
      for (const [place, position] of queries[index]!.positions.entries()) {
        sources.push({ index, place });
        flat.push(row * padded.sequenceLength + position);
      }
    if (sources.length === 0) continue;
    scope(() =>
      noGrad(() => {
        const positions = tensor(Int32Array.from(flat), undefined, { device });
        const input = toModelInput(padded, config, device);
        visit(predictTokens(config, weights, input, positions, evalMode), sources);
      }),
    );
  }
}
