import { z } from "zod";
import {
  canPackStates,
  type EncoderConfig,
  embedInput,
  embedTokens,
  embedTokensAt,
  type TokenInput,
} from "../models/index.js";
import { createAdam, type ForwardMode, selectMixtures, type Weights } from "../nn/index.js";
import { cat, grad, type HostTensor, noGrad, scope, type Tensor } from "../tensor/index.js";
import { maxSubstitutes } from "../text/substitutions.js";

// The convex hull of ASCC: every modifiable word is a convex combination of the embeddings of its
// candidates. The training method, the attack and the analysis all use this file.

/** Options of the search in the convex hull, for training and for attacks. */
export const hullSchema = z.strictObject({
  innerSteps: z.number().int().nonnegative().default(10).describe("steps of the inner maximization"),
  innerLearningRate: z.number().positive().default(1).describe("learning rate of the inner maximization"),
  innerWeightDecay: z.number().nonnegative().default(2e-5).describe("weight decay of the inner maximization"),
  entropyWeight: z
    .number()
    .nonnegative()
    .default(15 / 38400)
    .describe("weight of the entropy of the mixture weights; larger values favor single candidates"),
  candidatesPerWord: z.int().min(1).max(10).default(10).describe("candidates per word, including the word itself"),
});
export type HullOptions = z.output<typeof hullSchema>;

/** The modifiable words of a text with their candidate tokens, the word itself first. */
export interface ModifiableWords {
  /** Indices into the token IDs of the text. */
  readonly tokenPositions: Int32Array;
  /** Indices into the words of the text. */
  readonly wordIndices: Int32Array;
  readonly candidateIds: readonly Int32Array[];
}

export function findModifiableWords(
  replacements: readonly (readonly string[])[],
  positions: ArrayLike<number>,
  wordToId: (word: string) => number,
): ModifiableWords {
  const words = replacements.flatMap((candidates, i) => (candidates.length > 1 ? [i] : []));
  return {
    tokenPositions: Int32Array.from(words, (i) => positions[i]!),
    wordIndices: Int32Array.from(words),
    candidateIds: words.map((i) => Int32Array.from(replacements[i]!, wordToId)),
  };
}

/** The hull of a batch on the host: one row per modifiable word, in few different row counts. */
type HostHull = Readonly<Record<Exclude<keyof Hull, "isPacked">, HostTensor>>;

export function packHull(texts: readonly ModifiableWords[], length: number, candidatesPerWord: number): HostHull {
  // A word has no more candidates than a table of substitutes can store, and itself.
  const width = Math.min(candidatesPerWord, 1 + maxSubstitutes);
  const numTokens = texts.length * length;
  const numWords = texts.reduce((sum, text) => sum + text.candidateIds.length, 0);
  const quarter = Math.ceil(numTokens / 4);
  const count = Math.max(1, Math.ceil(numWords / quarter)) * quarter;
  const candidateIds = new Int32Array(count * width);
  const candidateMask = new Uint8Array(count * width);
  const positions = new Int32Array(count);
  const index = Int32Array.from({ length: numTokens }, (_, i) => i);
  let row = 0;
  for (const [i, text] of texts.entries()) {
    for (const [j, candidates] of text.candidateIds.entries()) {
      positions[row] = text.tokenPositions[j]!;
      index[i * length + positions[row]!] = numTokens + row;
      candidateIds.set(candidates.subarray(0, width), row * width);
      candidateMask.fill(1, row * width, row * width + Math.min(candidates.length, width));
      row++;
    }
  }
  // A row needs at least one candidate, or its mixture weights would be undefined.
  for (; row < count; row++) candidateMask[row * width] = 1;
  return {
    candidateIds: { values: candidateIds, shape: [count, width] },
    candidateMask: { values: candidateMask, shape: [count, width] },
    positions: { values: positions, shape: [count, 1] },
    index: { values: index, shape: [numTokens] },
  };
}

export interface Hull {
  readonly candidateIds: Tensor; // [word, candidate]
  /** 1 for a candidate, 0 for padding. */
  readonly candidateMask: Tensor; // [word, candidate]
  readonly positions: Tensor; // [word, 1]
  /** For each token, the row of its embedding in [embeddings of the text, mixtures]. */
  readonly index: Tensor; // [batch * length], or [token] of packed texts
  readonly isPacked: boolean;
}

/** Creates a hull from its tensors. */
export function createHull(getTensor: (name: keyof HostHull) => Tensor): Hull {
  return {
    isPacked: false,
    candidateIds: getTensor("candidateIds"),
    candidateMask: getTensor("candidateMask"),
    positions: getTensor("positions"),
    index: getTensor("index"),
  };
}

/** The hull of a batch whose mixed embeddings leave out the padding, if the model can. */
export function packMixtures(config: EncoderConfig, weights: Weights, hull: Hull, input: TokenInput): Hull {
  const { packing } = input;
  if (!packing || !canPackStates(config, weights)) return hull;
  return { ...hull, index: hull.index.indexSelect(0, packing.indices), isPacked: true };
}

interface HullEmbedding {
  readonly text: Tensor; // [batch, length, hidden]
  readonly candidates: Tensor; // [word, candidate, hidden]
}

export function embedHull(
  config: EncoderConfig,
  weights: Weights,
  input: TokenInput,
  hull: Hull,
  mode: ForwardMode,
): HullEmbedding {
  return {
    text:
      embedTokens(config, weights, { ...input, packing: null }, mode)?.embeddingOutput ??
      embedInput(config, weights, input, mode),
    candidates: embedTokensAt(config, weights, hull.candidateIds, hull.positions, mode),
  };
}

/** Its softmax is 0. Unlike minus infinity, it can be multiplied by a weight of 0. */
const maskedLogit = -30000;

/** Log of the mixture weights w = softmax(v) of each word: [word, candidate]. */
export function logMixtureWeights(logits: Tensor, candidateMask: Tensor): Tensor {
  return logSoftmaxExcept(logits, candidateMask.logicalNot());
}

function logSoftmaxExcept(logits: Tensor, padding: Tensor): Tensor {
  return logits.maskedFill(padding, maskedLogit).logSoftmax(-1);
}

/**
 * Replaces every modifiable word with sum_c w_c * embedding_c, the convex combination of its
 * candidates: [batch, length, hidden], or [1, token, hidden] if the hull is packed.
 */
export function mixEmbeddings({ text, candidates }: HullEmbedding, hull: Hull, mixtureWeights: Tensor): Tensor {
  const [batchSize, length, hidden] = text.shape as [number, number, number];
  const rows = text.reshape(batchSize * length, hidden);
  const mix = (): Tensor => {
    const mixtures = mixtureWeights.to(candidates.dtype).unsqueeze(1).matmul(candidates).squeeze(1); // [word, hidden]
    return cat([rows, mixtures], 0).indexSelect(0, hull.index);
  };
  const mixed = selectMixtures(rows, candidates, mixtureWeights, hull.index) ?? mix();
  return hull.isPacked ? mixed.unsqueeze(0) : mixed.reshape(batchSize, length, hidden);
}

/** Standard deviation of the initial logits, for almost uniform mixture weights. */
export function computeInitialStd(length: number, candidatesPerWord: number): number {
  return Math.sqrt(2 / (length * candidatesPerWord));
}

/**
 * Finds the mixture weights with the largest gain (RIFT eq. 8) by Adam on the logits v:
 * [word, candidate], detached. `computeGain` returns a sum over the batch.
 */
export function searchHull(
  embedding: HullEmbedding,
  hull: Hull,
  initialLogits: Tensor,
  computeGain: (perturbed: Tensor) => Tensor,
  options: HullOptions,
): Tensor {
  const logits = initialLogits.clone().requiresGrad_();
  const { innerLearningRate: learningRate, innerWeightDecay: weightDecay, innerSteps: maxSteps } = options;
  const update = createAdam(logits, { learningRate, weightDecay, maxSteps });
  const padding = hull.candidateMask.logicalNot();
  for (let step = 1; step <= maxSteps; step++) {
    scope(() => {
      const logWeights = logSoftmaxExcept(logits, padding);
      const mixtureWeights = logWeights.exp();
      const entropy = mixtureWeights.mul(logWeights).sum().neg();
      const gain = computeGain(mixEmbeddings(embedding, hull, mixtureWeights));
      const [gradient] = grad(entropy.mul(options.entropyWeight).sub(gain), [logits]) as [Tensor];
      noGrad(() => update(gradient, step));
    });
  }
  return noGrad(() => scope(() => logMixtureWeights(logits, hull.candidateMask).exp()));
}
