import { type Architecture, forward, type Model, type TokenInput, toModelInput } from "../models/index.js";
import { evalMode, mapWeights, type Weights } from "../nn/index.js";
import { type Device, type Rng, scope, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import {
  computeInitialStd,
  createHull,
  embedHull,
  type Hull,
  type HullOptions,
  type ModifiableWords,
  mixEmbeddings,
  packHull,
  packMixtures,
  searchHull,
} from "./convex-hull.js";

/** A frozen model whose input is a text in the convex hull. */
interface HullModel {
  computeCleanLogits(): Tensor;
  /** Logits of the text that has these mixture weights. */
  computeLogits(mixtureWeights: Tensor): Tensor;
  /** Finds the mixture weights whose logits have the largest gain. */
  search(initialLogits: Tensor, computeGain: (logits: Tensor) => Tensor): Tensor;
}

export function createHullModel(
  architecture: Architecture,
  weights: Weights,
  input: TokenInput,
  hull: Hull,
  options: HullOptions,
): HullModel {
  const frozen = mapWeights(weights, (weight) => weight.detach());
  const embedding = embedHull(architecture.config, frozen, input, hull, evalMode);
  const { attentionBias, packing = null } = input;
  const mixed = packMixtures(architecture.config, frozen, hull, input);
  const toLogits = (embeddingOutput: Tensor, isPacked: boolean): Tensor =>
    forward(architecture, frozen, { embeddingOutput, isPacked, attentionBias, packing }, evalMode).logits;
  const classify = (embeddings: Tensor): Tensor => toLogits(embeddings, mixed.isPacked);
  return {
    computeCleanLogits: () => scope(() => toLogits(embedding.text, false)),
    computeLogits: (mixtureWeights) => classify(mixEmbeddings(embedding, mixed, mixtureWeights)),
    search: (initialLogits, computeGain) =>
      searchHull(embedding, mixed, initialLogits, (input) => computeGain(classify(input)), options),
  };
}

/** A model on this host, with its weights in the dtype that it computes in. */
export interface WeightedModel {
  readonly model: Pick<Model, "architecture" | "tokenizer">;
  readonly weights: Weights;
  readonly device: Device;
}

/** A text to search in. Its random stream decides where the search starts. */
export interface HullText {
  readonly encoding: Encoding;
  readonly modifiableWords: ModifiableWords;
  readonly rng: Rng;
}

/** Pads texts, packs their hull and copies both to the device. */
export function createHullBatch(
  { model, weights, device }: WeightedModel,
  texts: readonly HullText[],
  options: HullOptions,
): HullModel & {
  readonly hull: Hull;
  /** Standard deviation of the initial logits. */
  readonly initialStd: number;
  /** Samples one value per candidate from the random stream of each text: [word, candidate]. */
  sample(getRng: (text: HullText) => Rng, draw: (rng: Rng) => number): Tensor;
} {
  const padded = padBatch(
    texts.map((text) => text.encoding),
    model.tokenizer.special.padId,
  );
  const host = packHull(
    texts.map((text) => text.modifiableWords),
    padded.sequenceLength,
    options.candidatesPerWord,
  );
  const hull = createHull((name) => tensor(host[name].values, host[name].shape, { device }));
  const [count, width] = host.candidateIds.shape as [number, number];
  return {
    ...createHullModel(
      model.architecture,
      weights,
      toModelInput(padded, model.architecture.config, device),
      hull,
      options,
    ),
    hull,
    initialStd: computeInitialStd(padded.sequenceLength, options.candidatesPerWord),
    sample(getRng, draw) {
      const values = new Float32Array(count * width);
      let i = 0;
      for (const text of texts) {
        const rng = getRng(text);
        for (let left = text.modifiableWords.candidateIds.length * width; left > 0; left--) values[i++] = draw(rng);
      }
      return tensor(values, [count, width], { device });
    },
  };
}
