import { type EncoderConfig, embedAt, embedInput, type TokenInput } from "../models/index.js";
import type { Mode, Weights } from "../nn/index.js";
import { cat, type Device, grad, noGrad, scope, type Tensor, tensor, zerosLike } from "../tensor/index.js";
import type { HostHull } from "./open-words.js";

/** The attack space of a batch on the device. */
export interface Hull {
  readonly tokens: Tensor; // [word, slot]
  readonly open: Tensor; // [word, slot]
  readonly places: Tensor; // [word, 1]
  readonly index: Tensor; // [batch * length]
}

export function toHull({ count, width, tokens, open, places, index }: HostHull, device: Device): Hull {
  return {
    tokens: tensor(tokens, [count, width], { device }),
    open: tensor(open, [count, width], { device }),
    places: tensor(places, [count, 1], { device }),
    index: tensor(index, [index.length], { device }),
  };
}

/** The embedding layer's output for a batch as it stands, and for every slot of its open words. */
export interface HullEmbedding {
  readonly text: Tensor; // [batch, length, hidden]
  readonly slots: Tensor; // [word, slot, hidden]
}

export function embedHull(config: EncoderConfig, weights: Weights, input: TokenInput, hull: Hull, mode: Mode): HullEmbedding {
  return { text: embedInput(config, weights, input, mode), slots: embedAt(config, weights, hull.tokens, hull.places, mode) };
}

/** Vanishes in a softmax, and times a share of 0 is 0 (unlike minus infinity). */
const closed = -30000;

/** log of the shares w = softmax(v) over the open slots of each word: [word, slot]. */
export function logShares(free: Tensor, open: Tensor): Tensor {
  return free.maskedFill(open.logicalNot(), closed).logSoftmax(-1);
}

/** The text with every open word as the convex combination of its slots: sum over s of w_s * embedding_s. */
export function mixSlots(embedding: HullEmbedding, hull: Pick<Hull, "index">, shares: Tensor): Tensor {
  const { text, slots } = embedding;
  const [rows, length, hidden] = text.shape as [number, number, number];
  const mixed = shares.to(slots.type).unsqueeze(1).matmul(slots).squeeze(1); // [word, hidden]
  return cat([text.reshape(rows * length, hidden), mixed], 0)
    .indexSelect(0, hull.index)
    .reshape(rows, length, hidden);
}

/** The deviation of the first v, almost uniform shares: of a batch padded to `length`, with so many slots. */
export function initialDeviation(length: number, slots: number): number {
  return Math.sqrt(2 / (length * slots));
}

export interface HullSearch {
  readonly steps: number;
  readonly learningRate: number;
  readonly decay: number;
  /** Weight of the shares' entropy, which pushes them towards single slots. */
  readonly entropy: number;
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
  search: HullSearch,
): Tensor {
  const free = initial.clone().requireGrad();
  const moments = { first: zerosLike(initial), second: zerosLike(initial) };
  for (let step = 1; step <= search.steps; step++) {
    scope(() => {
      const logs = logShares(free, hull.open);
      const shares = logs.exp();
      const entropy = shares.mul(logs).sum().neg();
      const loss = entropy.mul(search.entropy).sub(gain(mixSlots(embedding, hull, shares)));
      const [gradient] = grad(loss, [free]) as [Tensor];
      noGrad(() => adamStep(free, gradient, moments, step, search));
    });
  }
  return noGrad(() => scope(() => logShares(free, hull.open).exp()));
}

/** PyTorch's Adam with its usual betas: the decay is a part of the gradient. */
function adamStep(
  free: Tensor,
  gradient: Tensor,
  moments: { first: Tensor; second: Tensor },
  step: number,
  { learningRate, decay }: HullSearch,
): void {
  const [beta1, beta2, epsilon] = [0.9, 0.999, 1e-8];
  const decayed = gradient.add(free.mul(decay));
  moments.first.mul_(beta1).add_(decayed.mul(1 - beta1));
  moments.second.mul_(beta2).add_(decayed.square().mul(1 - beta2));
  const scale = moments.second
    .sqrt()
    .div(Math.sqrt(1 - beta2 ** step))
    .add(epsilon);
  free.sub_(moments.first.div(scale).mul(learningRate / (1 - beta1 ** step)));
}
