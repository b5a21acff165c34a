import { DropoutSeeds, embed, type ForwardMode, getParameter, type Weights } from "../nn/index.js";
import { scope, type Tensor } from "../tensor/index.js";
import type { EncoderConfig } from "./families/family.js";
import { getFamily } from "./families/index.js";
import { type Packing, packTokens, toKernelPacking, unpackTokens } from "./packing.js";

/** The input of the encoder, at one of three depths. Attacks on a later one skip the others. */
export type EncoderInput = {
  /** 0 at tokens, a large negative number at padding: [batch, 1, 1, length], or null. */
  readonly attentionBias: Tensor | null;
  readonly tokenTypeIds?: Tensor | null;
  readonly packing?: Packing | null;
} & (
  | { /** Token IDs [batch, length]. */ readonly inputIds: Tensor }
  | {
      /** Word embeddings [batch, length, embedding]; FreeLB and SMART perturb these. */
      readonly wordEmbeddings: Tensor;
    }
  | {
      /** Output of the embedding layer [batch, length, hidden]; ASCC perturbs it. */
      readonly embeddingOutput: Tensor;
      /** True if it leaves out the padding already: [1, token, hidden]. */
      readonly isPacked?: boolean;
    }
);

/** Looks up word embeddings: token IDs [..., length] -> [..., length, embedding]. */
export function embedWords(config: EncoderConfig, weights: Weights, ids: Tensor): Tensor {
  return embed(weights, getFamily(config).wordEmbeddings, ids);
}

/** Computes the embedding layer for tokens of type 0 at positions, which are broadcast. */
export function embedTokensAt(
  config: EncoderConfig,
  weights: Weights,
  ids: Tensor,
  positionIds: Tensor,
  mode: ForwardMode,
): Tensor {
  const tokens = getFamily(config).embedTokens?.(
    config,
    weights,
    { ids, typeIds: null, indices: null, positionIds },
    mode,
  );
  if (tokens) return tokens.reshape(...ids.shape, -1);
  const words = embedWords(config, weights, ids);
  const input = { words, positionIds, tokenTypeIds: null, attentionBias: null };
  return getFamily(config).embed(config, weights, input, mode);
}

export function embedInput(config: EncoderConfig, weights: Weights, input: EncoderInput, mode: ForwardMode): Tensor {
  if ("embeddingOutput" in input) return input.embeddingOutput;
  const words = "wordEmbeddings" in input ? input.wordEmbeddings : embedWords(config, weights, input.inputIds);
  const { tokenTypeIds = null, attentionBias } = input;
  return getFamily(config).embed(config, weights, { words, positionIds: null, tokenTypeIds, attentionBias }, mode);
}

function isPackable(config: EncoderConfig, { dtype, device }: Tensor): boolean {
  return (getFamily(config).packable ?? false) && (dtype === "bfloat16" || device === "cpu");
}

/** Returns true if texts can be packed: on a GPU, the kernels of packed attention need 16 bits. */
export function canPackStates(config: EncoderConfig, weights: Weights): boolean {
  return isPackable(config, getParameter(weights, `${getFamily(config).wordEmbeddings}.weight`));
}

/** Computes the embedding layer in one kernel, packed if the input is. Null without a kernel. */
export function embedTokens(
  config: EncoderConfig,
  weights: Weights,
  input: EncoderInput,
  mode: ForwardMode,
): { readonly embeddingOutput: Tensor; readonly isPacked: boolean } | null {
  const family = getFamily(config);
  if (!("inputIds" in input) || !family.embedTokens) return null;
  const { inputIds: ids, tokenTypeIds: typeIds = null, packing } = input;
  const isPacked = Boolean(packing) && canPackStates(config, weights);
  const indices = isPacked ? packing!.indices : null;
  const tokens = family.embedTokens(config, weights, { ids, typeIds, indices }, mode);
  if (!tokens) return null;
  const [batch, length] = ids.shape as [number, number];
  return { embeddingOutput: isPacked ? tokens.unsqueeze(0) : tokens.reshape(batch, length, -1), isPacked };
}

/**
 * Applies the transformer layers to the output of the embedding layer. Returns
 * [batch, length, hidden], or [batch, 1, hidden] for the first position only. `onLayer` receives
 * the output of every layer. `isPacked` means that the embeddings are packed already:
 * [1, token, hidden].
 */
export function encodeLayers(
  config: EncoderConfig,
  weights: Weights,
  embeddingOutput: Tensor,
  { attentionBias, packing }: Pick<EncoderInput, "attentionBias" | "packing">,
  mode: ForwardMode,
  positions: "first" | "all",
  onLayer?: (hidden: Tensor) => void,
  isPacked = false,
): Tensor {
  const family = getFamily(config);
  // Hidden states that are returned keep their shape.
  const canPack = isPackable(config, embeddingOutput) && !onLayer;
  const packed = canPack && packing ? toKernelPacking(packing) : null;
  const state = packed ?? family.prepare(config, weights, embeddingOutput, attentionBias, mode);
  // Attention and the two dense layers after it have a mask each.
  const seeds =
    mode.training && embeddingOutput.device !== "cpu"
      ? new DropoutSeeds(embeddingOutput.device, 3 * config.numHiddenLayers)
      : null;
  const layerMode = seeds ? { ...mode, seeds } : mode;
  let hidden = packed && !isPacked ? packTokens(embeddingOutput, packed) : embeddingOutput;
  for (let layer = 0; layer < config.numHiddenLayers; layer++) {
    const firstOnly = positions === "first" && layer === config.numHiddenLayers - 1;
    const input = { layer, hidden, state, firstOnly };
    // Without gradients, the scope frees the tensors of a layer for the next one.
    hidden = scope(() => family.encodeLayer(config, weights, input, layerMode));
    onLayer?.(hidden);
  }
  // [1, token, hidden] -> [batch, 1 or length, hidden]
  if (packed) hidden = positions === "first" ? hidden.transpose(0, 1) : unpackTokens(hidden, packed);
  return family.finish ? family.finish(config, weights, hidden) : hidden;
}

/** Returns the shape of every encoder parameter, in checkpoint order, without the pooler. */
export function getEncoderParameterShapes(config: EncoderConfig): Map<string, readonly number[]> {
  return getFamily(config).getShapes(config);
}
