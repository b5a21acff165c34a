import { attend, dense, denseActivated, drop, embed, type Mode, normalize, parameter, type Weights } from "../nn/index.js";
import { scope, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./config.js";
import { project } from "./projections.js";

/** What the encoder reads, at one of three depths: an attack on a later one leaves the earlier ones out. */
export type EncoderInput = {
  /** [batch, 1, 1, length]: 0 at text, a large negative number at padding; null where nothing is padded. */
  readonly bias: Tensor | null;
  /** Token type ids [batch, length]; null: all 0. */
  readonly types?: Tensor | null;
} & (
  | { /** Token ids [batch, length]. */ readonly ids: Tensor }
  | { /** Word embeddings [batch, length, hidden] (FreeLB and SMART perturb these). */ readonly words: Tensor }
  | { /** The embedding layer's output [batch, length, hidden] (ASCC perturbs this). */ readonly embedded: Tensor }
);

/** The names' prefix in a checkpoint with a head. */
export function prefixOf(config: EncoderConfig): string {
  return `${config.modelType}.`;
}

/** Word embeddings of token ids: [..., length] -> [..., length, hidden]. */
export function embedWords(config: EncoderConfig, weights: Weights, ids: Tensor): Tensor {
  return embed(weights, `${prefixOf(config)}embeddings.word_embeddings`, ids);
}

/** The embedding layer over word embeddings [..., length, hidden]: position and type added, normalised, dropped out. */
export function embedLayer(config: EncoderConfig, weights: Weights, words: Tensor, types: Tensor | null, mode: Mode): Tensor {
  const table = parameter(weights, `${prefixOf(config)}embeddings.position_embeddings.weight`);
  const positions = table.narrow(0, config.positionOffset, words.size(-2)); // [length, hidden]
  return embedSum(config, weights, words, positions, types, mode);
}

/** The embedding layer's output for single tokens of type 0 at given places of a text: ids [...], places broadcast to them. */
export function embedAt(config: EncoderConfig, weights: Weights, ids: Tensor, places: Tensor, mode: Mode): Tensor {
  const positions = embed(weights, `${prefixOf(config)}embeddings.position_embeddings`, places.add(config.positionOffset));
  return embedSum(config, weights, embedWords(config, weights, ids), positions, null, mode);
}

function embedSum(config: EncoderConfig, weights: Weights, words: Tensor, positions: Tensor, types: Tensor | null, mode: Mode): Tensor {
  const name = `${prefixOf(config)}embeddings`;
  const typed = types
    ? embed(weights, `${name}.token_type_embeddings`, types)
    : parameter(weights, `${name}.token_type_embeddings.weight`).select(0, 0); // [hidden]
  const sum = words.add(typed).add(positions);
  return drop(normalize(weights, `${name}.LayerNorm`, sum, config.layerNormEpsilon), config.hiddenDropout, mode);
}

/** The embedding layer's output for any input. */
export function embedInput(config: EncoderConfig, weights: Weights, input: EncoderInput, mode: Mode): Tensor {
  if ("embedded" in input) return input.embedded;
  const words = "words" in input ? input.words : embedWords(config, weights, input.ids);
  return embedLayer(config, weights, words, input.types ?? null, mode);
}

/** Which positions of the last layer are wanted: a classifier reads the first alone, which spares most of that layer's work. */
export type Wanted = "first" | "all";

/**
 * The transformer layers over the embedding layer's output: [batch, length, hidden], or [batch, 1, hidden] where only the first
 * position is wanted.
 */
export function encodeLayers(
  config: EncoderConfig,
  weights: Weights,
  embedded: Tensor,
  bias: Tensor | null,
  mode: Mode,
  wanted: Wanted,
): Tensor {
  let hidden = embedded;
  for (let layer = 0; layer < config.layers; layer++) {
    const first = wanted === "first" && layer === config.layers - 1;
    const below = hidden;
    // What a layer made goes with it, unless a gradient needs it: the next one finds that memory in the cache.
    hidden = scope(() => encodeLayer(config, weights, `${prefixOf(config)}encoder.layer.${layer}`, below, bias, mode, first));
  }
  return hidden;
}

function encodeLayer(
  config: EncoderConfig,
  weights: Weights,
  name: string,
  hidden: Tensor,
  bias: Tensor | null,
  mode: Mode,
  first: boolean,
): Tensor {
  const width = config.hiddenSize / config.heads;
  const split = (tensor: Tensor): Tensor => tensor.reshape(tensor.size(0), tensor.size(1), config.heads, width).transpose(1, 2); // [batch, head, length, width]
  const asking = first ? hidden.narrow(1, 0, 1) : hidden;
  const [query, key, value] = project(weights, `${name}.attention.self`, hidden, first).map(split) as [Tensor, Tensor, Tensor];
  const attended = attend(query, key, value, bias, config.attentionDropout, mode).transpose(1, 2);
  const context = attended.reshape(asking.size(0), asking.size(1), config.hiddenSize);
  const output = (part: string, input: Tensor, residual: Tensor): Tensor =>
    normalize(
      weights,
      `${name}.${part}.LayerNorm`,
      drop(dense(weights, `${name}.${part}.dense`, input), config.hiddenDropout, mode).add(residual),
      config.layerNormEpsilon,
    );
  const middle = output("attention.output", context, asking);
  return output("output", denseActivated(weights, `${name}.intermediate.dense`, middle, config.activation), middle);
}

/** Every parameter of an encoder with its shape, in checkpoint order. The pooler is BERT's own head and stands in heads.ts. */
export function encoderParameters(config: EncoderConfig): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const prefix = prefixOf(config);
  const { hiddenSize: hidden, intermediateSize: intermediate } = config;
  const add = (name: string, ...shape: number[]): void => {
    shapes.set(`${prefix}${name}`, shape);
  };
  const both = (name: string, rows: number, columns?: number): void => {
    if (columns === undefined) add(`${name}.weight`, rows);
    else add(`${name}.weight`, rows, columns);
    add(`${name}.bias`, rows);
  };
  add("embeddings.word_embeddings.weight", config.vocabularySize, hidden);
  add("embeddings.position_embeddings.weight", config.positions, hidden);
  add("embeddings.token_type_embeddings.weight", config.typeVocabularySize, hidden);
  both("embeddings.LayerNorm", hidden);
  for (let i = 0; i < config.layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ["query", "key", "value"]) both(`${layer}.attention.self.${part}`, hidden, hidden);
    both(`${layer}.attention.output.dense`, hidden, hidden);
    both(`${layer}.attention.output.LayerNorm`, hidden);
    both(`${layer}.intermediate.dense`, intermediate, hidden);
    both(`${layer}.output.dense`, hidden, intermediate);
    both(`${layer}.output.LayerNorm`, hidden);
  }
  return shapes;
}
