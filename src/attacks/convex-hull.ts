import { type EncoderConfig, embedInput, embedTokensAt, type TokenInput } from "../models/index.js";
import type { ForwardMode, Weights } from "../nn/index.js";
import { cat, type Device, grad, noGrad, scope, type Tensor, tensor, zerosLike } from "../tensor/index.js";
import type { HostHull } from "./open-words.js";

/** The attack space of a batch on the device. */
export interface Hull {
  readonly candidateIds: Tensor; // [word, slot]
  readonly candidateMask: Tensor; // [word, slot]
  readonly positions: Tensor; // [word, 1]
  readonly index: Tensor; // [batch * length]
}

export function toHull(
  { count, width, candidateIds: tokens, candidateMask: open, positions: places, index }: HostHull,
  device: Device,
): Hull {
  return {
    candidateIds: tensor(tokens, [count, width], { device }),
    candidateMask: tensor(open, [count, width], { device }),
    positions: tensor(places, [count, 1], { device }),
    index: tensor(index, [index.length], { device }),
  };
}

/** The embedding layer's output for a batch as it stands, and for every slot of its open words. */
export interface HullEmbedding {
  readonly text: Tensor; // [batch, length, hidden]
  readonly candidates: Tensor; // [word, slot, hidden]
}

export function embedHull(
  config: EncoderConfig,
  weights: Weights,
  input: TokenInput,
  hull: Hull,
  mode: ForwardMode,
): HullEmbedding {
  return {
    text: embedInput(config, weights, input, mode),
    candidates: embedTokensAt(config, weights, hull.candidateIds, hull.positions, mode),
  };
}

/** Vanishes in a softmax, and times a share of 0 is 0 (unlike minus infinity). */
const maskedLogit = -30000;

/** log of the shares w = softmax(v) over the open slots of each word: [word, slot]. */
export function logMixtureWeights(logits: Tensor, open: Tensor): Tensor {
  return logits.maskedFill(open.logicalNot(), maskedLogit).logSoftmax(-1);
}

/** The text with every open word as the convex combination of its slots: sum over s of w_s * embedding_s. */
export function mixEmbeddings(embedding: HullEmbedding, hull: Pick<Hull, "index">, mixtureWeights: Tensor): Tensor {
  const { text, candidates: slots } = embedding;
  const [rows, length, hidden] = text.shape as [number, number, number];
  const mixed = mixtureWeights.to(slots.dtype).unsqueeze(1).matmul(slots).squeeze(1); // [word, hidden]
  return cat([text.reshape(rows * length, hidden), mixed], 0)
    .indexSelect(0, hull.index)
    .reshape(rows, length, hidden);
}

/** The deviation of the first v, almost uniform shares: of a batch padded to `length`, with so many slots. */
export function computeInitialStd(length: number, slots: number): number {
  return Math.sqrt(2 / (length * slots));
}

export interface HullSearchOptions {
  readonly steps: number;
  readonly learningRate: number;
  readonly weightDecay: number;
  /** Weight of the shares' entropy, which pushes them towards single slots. */
  readonly entropyWeight: number;
}

/**
 * The shares that make `gain` largest, by Adam on v (RIFT eq. 8 with ASCC's hull): [word, slot], without history. `gain` is summed
 * over the batch. Each step frees what it made.
 */
export function searchHull(
  embedding: HullEmbedding,
  hull: Hull,
  initial: Tensor,
  gain: (perturbed: Tensor) => Tensor,
  search: HullSearchOptions,
): Tensor {
  const logits = initial.clone().requiresGrad_();
  const moments = { first: zerosLike(initial), second: zerosLike(initial) };
  for (let step = 1; step <= search.steps; step++) {
    scope(() => {
      const logWeights = logMixtureWeights(logits, hull.candidateMask);
      const mixtureWeights = logWeights.exp();
      const entropy = mixtureWeights.mul(logWeights).sum().neg();
      const loss = entropy.mul(search.entropyWeight).sub(gain(mixEmbeddings(embedding, hull, mixtureWeights)));
      const [gradient] = grad(loss, [logits]) as [Tensor];
      noGrad(() => adamStep(logits, gradient, moments, step, search));
    });
  }
  return noGrad(() => scope(() => logMixtureWeights(logits, hull.candidateMask).exp()));
}

/** PyTorch's Adam with its usual betas: the decay is a part of the gradient. */
function adamStep(
  logits: Tensor,
  gradient: Tensor,
  moments: { first: Tensor; second: Tensor },
  step: number,
  { learningRate, weightDecay: decay }: HullSearchOptions,
): void {
  const [beta1, beta2, epsilon] = [0.9, 0.999, 1e-8];
  const decayed = gradient.add(logits.mul(decay));
  moments.first.mul_(beta1).add_(decayed.mul(1 - beta1));
  moments.second.mul_(beta2).add_(decayed.square().mul(1 - beta2));
  const scale = moments.second
    .sqrt()
    .div(Math.sqrt(1 - beta2 ** step))
    .add(epsilon);
  logits.sub_(moments.first.div(scale).mul(learningRate / (1 - beta1 ** step)));
}
