import {
  canAttendShort,
  dense,
  denseResidualNorm,
  dropout,
  type EmbeddedTokens,
  embed,
  embeddingNorm,
  type ForwardMode,
  feedForward,
  getParameter,
  layerNorm,
  packedAttention,
  scaledDotProductAttention,
  shortAttention,
  type Weights,
} from "../../nn/index.js";
import type { Tensor } from "../../tensor/index.js";
import { fusedName, projectQkv } from "../attention-projections.js";
import type { Packing } from "../packing.js";
import type { EmbeddingInput, EncoderConfig, EncoderFamily, ParameterShapes, Pooler } from "./family.js";

export class ShapeList {
  readonly shapes: ParameterShapes = new Map();
  readonly #prefix: string;

  constructor(prefix = "") {
    this.#prefix = prefix;
  }

  add(name: string, ...shape: number[]): this {
    this.shapes.set(`${this.#prefix}${name}`, shape);
    return this;
  }

  addDense(name: string, out: number, input: number, hasBias = true): this {
    this.add(`${name}.weight`, out, input);
    return hasBias ? this.add(`${name}.bias`, out) : this;
  }

  addNorm(name: string, size: number, hasBias = true): this {
    this.add(`${name}.weight`, size);
    return hasBias ? this.add(`${name}.bias`, size) : this;
  }
}

/** [batch, length, hidden] -> [batch, head, length, width]. */
export function splitHeads(tensor: Tensor, numHeads: number): Tensor {
  const [batch, length, hidden] = tensor.shape as [number, number, number];
  return tensor.reshape(batch, length, numHeads, hidden / numHeads).transpose(1, 2);
}

/** [batch, head, length, width] -> [batch, length, hidden]. */
export function mergeHeads(tensor: Tensor): Tensor {
  const [batch, heads, length, width] = tensor.shape as [number, number, number, number];
  return tensor.transpose(1, 2).reshape(batch, length, heads * width);
}

function isPacked(mask: Tensor | Packing | null): mask is Packing {
  return mask !== null && "starts" in mask;
}

export function selectFirst(hidden: Tensor, firstOnly: boolean, mask: Tensor | Packing | null = null): Tensor {
  if (!firstOnly) return hidden;
  return isPacked(mask) ? hidden.indexSelect(1, mask.firstTokens) : hidden.narrow(1, 0, 1);
}

export function addAndNormalize(
  config: EncoderConfig,
  weights: Weights,
  names: { readonly dense: string; readonly norm: string },
  input: Tensor,
  shortcut: Tensor,
  mode: ForwardMode,
): Tensor {
  const options = { p: config.hiddenDropout, epsilon: config.layerNormEps, mode };
  return denseResidualNorm(weights, names.dense, names.norm, input, shortcut, options);
}

export interface LearnedPositions {
  readonly maxPositionEmbeddings: number;
  /** The row of the first token. RoBERTa skips the rows up to the ID of its padding token. */
  readonly positionOffset: number;
  readonly typeVocabSize: number;
}

/** Looks up the position embeddings of an input: [length, embedding], or the shape of the IDs. */
export function embedPositions(
  config: LearnedPositions,
  weights: Weights,
  name: string,
  { words, positionIds }: EmbeddingInput,
): Tensor {
  if (positionIds) return embed(weights, name, positionIds.add(config.positionOffset));
  return getParameter(weights, `${name}.weight`).narrow(0, config.positionOffset, words.size(-2));
}

function embedTokensLikeBert(
  config: EncoderConfig & LearnedPositions,
  weights: Weights,
  name: string,
  tokens: EmbeddedTokens,
  mode: ForwardMode,
): Tensor | null {
  const bias = weights.get(`${name}.LayerNorm.bias`);
  if (!bias) return null;
  const getTable = (kind: string): Tensor => getParameter(weights, `${name}.${kind}_embeddings.weight`);
  return embeddingNorm(
    { words: getTable("word"), positions: getTable("position"), types: getTable("token_type") },
    { weight: getParameter(weights, `${name}.LayerNorm.weight`), bias },
    { ...tokens, typeIds: config.typeVocabSize > 1 ? tokens.typeIds : null },
    {
      p: mode.training ? config.hiddenDropout : 0,
      epsilon: config.layerNormEps,
      firstPosition: config.positionOffset,
    },
  );
}

export function embedLikeBert(
  config: EncoderConfig & LearnedPositions,
  weights: Weights,
  name: string,
  input: EmbeddingInput,
  mode: ForwardMode,
): Tensor {
  const positions = embedPositions(config, weights, `${name}.position_embeddings`, input);
  const types =
    input.tokenTypeIds && config.typeVocabSize > 1
      ? embed(weights, `${name}.token_type_embeddings`, input.tokenTypeIds)
      : getParameter(weights, `${name}.token_type_embeddings.weight`).select(0, 0); // [embedding]
  const sum = input.words.add(types).add(positions);
  return dropout(layerNorm(weights, `${name}.LayerNorm`, sum, config.layerNormEps), config.hiddenDropout, mode);
}

export function addBertEmbeddings(list: ShapeList, config: EncoderConfig & LearnedPositions): ShapeList {
  const { embeddingSize } = config;
  return list
    .add("embeddings.word_embeddings.weight", config.vocabSize, embeddingSize)
    .add("embeddings.position_embeddings.weight", config.maxPositionEmbeddings, embeddingSize)
    .add("embeddings.token_type_embeddings.weight", config.typeVocabSize, embeddingSize)
    .addNorm("embeddings.LayerNorm", embeddingSize);
}

export const bertProjections = ["query", "key", "value"] as const;

/** Self-attention with the weights `name.part`: [batch, length, hidden] -> [batch, query, hidden]. */
export function selfAttend(
  config: EncoderConfig,
  weights: Weights,
  name: string,
  parts: readonly [string, string, string],
  hidden: Tensor,
  mask: Tensor | Packing | null,
  mode: ForwardMode,
  firstOnly: boolean,
): Tensor {
  const short = attendShort(config, weights, `${name}.${fusedName}`, hidden, mask, mode, firstOnly);
  if (short) return short;
  const qkv = projectQkv(weights, name, parts, hidden, (part) => selectFirst(part, firstOnly, mask));
  return isPacked(mask) ? attendPacked(config, qkv, mask, firstOnly, mode) : attendPadded(config, qkv, mask, mode);
}

/** `selfAttend` of short texts with fused projections in one kernel, or null if there is none. */
function attendShort(
  { numAttentionHeads, attentionDropout }: EncoderConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  mask: Tensor | Packing | null,
  mode: ForwardMode,
  firstOnly: boolean,
): Tensor | null {
  if (!weights.has(`${name}.bias`) || (mask !== null && !isPacked(mask))) return null;
  const [batch, length, width] = hidden.shape as [number, number, number];
  const p = mode.training ? attentionDropout : 0;
  const texts = { starts: mask?.starts ?? null, length: mask?.maxLength ?? length };
  if (!canAttendShort(hidden, width / numAttentionHeads, texts.length, p)) return null;
  const outputs = firstOnly ? (mask?.firstTokens.size(0) ?? batch) : 0;
  const outputStarts = firstOnly ? (mask?.firstStarts ?? null) : null;
  const projections = dense(weights, name, hidden).reshape(batch * length, 3 * width);
  const context = shortAttention(projections, { ...texts, outputs, outputStarts }, numAttentionHeads, p, mode);
  return mask ? context.unsqueeze(0) : context.reshape(batch, -1, width);
}

/** Attention of all heads to padded texts: projections [batch, length, hidden] -> [batch, query, hidden]. */
export function attendPadded(
  { numAttentionHeads, attentionDropout }: EncoderConfig,
  qkv: readonly [Tensor, Tensor, Tensor],
  bias: Tensor | null,
  mode: ForwardMode,
): Tensor {
  const [query, key, value] = qkv.map((part) => splitHeads(part, numAttentionHeads)) as [Tensor, Tensor, Tensor];
  return mergeHeads(scaledDotProductAttention(query, key, value, bias, attentionDropout, mode));
}

/** Attention within each text of a packed batch: [1, token, hidden] -> [1, query token, hidden]. */
function attendPacked(
  { numAttentionHeads, attentionDropout }: EncoderConfig,
  qkv: readonly [Tensor, Tensor, Tensor],
  { starts, firstStarts, maxLength }: Packing,
  firstOnly: boolean,
  mode: ForwardMode,
): Tensor {
  const [query, key, value] = qkv.map(
    (part) => part.reshape(part.size(1), numAttentionHeads, part.size(2) / numAttentionHeads), // [token, head, width]
  ) as [Tensor, Tensor, Tensor];
  const queries = { starts: firstOnly ? firstStarts : starts, maxLength: firstOnly ? 1 : maxLength };
  const p = mode.training ? attentionDropout : 0;
  return packedAttention(query, key, value, queries, { starts, maxLength }, p).reshape(1, query.size(0), -1);
}

export function applyBertOutput(
  config: EncoderConfig,
  weights: Weights,
  name: string,
  context: Tensor,
  residual: Tensor,
  mode: ForwardMode,
): Tensor {
  const names = {
    inner: `${name}.intermediate.dense`,
    outer: `${name}.output.dense`,
    norm: `${name}.output.LayerNorm`,
  };
  const options = { p: config.hiddenDropout, epsilon: config.layerNormEps, mode };
  const attention = `${name}.attention.output`;
  const attended = denseResidualNorm(
    weights,
    `${attention}.dense`,
    `${attention}.LayerNorm`,
    context,
    residual,
    options,
  );
  return feedForward(weights, names, attended, config.activation, options);
}

export function addBertLayers(
  list: ShapeList,
  config: EncoderConfig,
  projections: readonly string[] = bertProjections,
): ShapeList {
  const { hiddenSize: hidden, intermediateSize: intermediate } = config;
  for (let i = 0; i < config.numHiddenLayers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of projections) list.addDense(`${layer}.attention.self.${part}`, hidden, hidden);
    list.addDense(`${layer}.attention.output.dense`, hidden, hidden);
    list.addNorm(`${layer}.attention.output.LayerNorm`, hidden);
    list.addDense(`${layer}.intermediate.dense`, intermediate, hidden);
    list.addDense(`${layer}.output.dense`, hidden, intermediate);
    list.addNorm(`${layer}.output.LayerNorm`, hidden);
  }
  return list;
}

export function listBertAttentions(config: EncoderConfig, prefix: string): string[] {
  return Array.from({ length: config.numHiddenLayers }, (_, i) => `${prefix}encoder.layer.${i}.attention.self`);
}

export const bertLayerPattern = /\.encoder\.layer\.(\d+)\./;

export function createPooler(prefix: string, name = "pooler.dense"): Pooler {
  return {
    getShapes: ({ hiddenSize }) => new ShapeList(prefix).addDense(name, hiddenSize, hiddenSize).shapes,
    apply: (weights, features) => dense(weights, `${prefix}${name}`, features).tanh(),
  };
}

/** What BERT, RoBERTa and ELECTRA share: everything but the heads. ELECTRA's embeddings are narrower. */
export function createBertCore(prefix: string) {
  const embeddings = `${prefix}embeddings`;
  return {
    prefix,
    wordEmbeddings: `${embeddings}.word_embeddings`,
    layerPattern: bertLayerPattern,
    projections: bertProjections,
    getShapes: (config) => addBertLayers(addBertEmbeddings(new ShapeList(prefix), config), config).shapes,
    listAttentions: (config) => listBertAttentions(config, prefix),
    embed: (config, weights, input, mode) => embedLikeBert(config, weights, embeddings, input, mode),
    embedTokens: (config, weights, tokens, mode) => embedTokensLikeBert(config, weights, embeddings, tokens, mode),
    prepare: (_config, _weights, _embeddingOutput, attentionBias) => attentionBias,
    packable: true,
    encodeLayer: (config, weights, { layer, hidden, state, firstOnly }, mode) => {
      const name = `${prefix}encoder.layer.${layer}`;
      const attention = `${name}.attention.self`;
      const context = selfAttend(config, weights, attention, bertProjections, hidden, state, mode, firstOnly);
      return applyBertOutput(config, weights, name, context, selectFirst(hidden, firstOnly, state), mode);
    },
  } satisfies Partial<EncoderFamily<EncoderConfig & LearnedPositions, Tensor | Packing | null>>;
}
