import { z } from "zod";
import { forward, type Model, toModelInput } from "../models/index.js";
import { evalMode, mapWeights, type Weights } from "../nn/index.js";
import { crossEntropyLoss, type Device, type Rng, scope, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import { maxSubstitutes } from "../text/substitutions.js";
import { computeInitialStd, embedHull, type HullSearchOptions, searchHull, toHull } from "./convex-hull.js";
import { type ModifiableWords, packHull } from "./open-words.js";

/** What the search in the convex hull can be told: the same in training and in attack. */
export const hullSchema = z.strictObject({
  innerSteps: z.number().int().nonnegative().default(10).describe("steps of the search"),
  innerLearningRate: z.number().positive().default(1).describe("learning rate of the search"),
  innerWeightDecay: z.number().nonnegative().default(2e-5).describe("weight decay of the search"),
  entropyWeight: z
    .number()
    .nonnegative()
    .default(15 / 38400)
    .describe("weight of the shares' entropy, summed over the batch: more makes single slots"),
  candidatesPerWord: z.number().int().min(1).max(10).default(10).describe("slots a word, itself among them"),
});
export type HullOptions = z.output<typeof hullSchema>;

/** The slots that can be used at all: a word has no more substitutes than a table may hold. */
export function getHullWidth({ candidatesPerWord: slots }: Pick<HullOptions, "candidatesPerWord">): number {
  return Math.min(slots, 1 + maxSubstitutes);
}

/** The options as the search takes them. */
export function toHullSearchOptions({
  innerSteps: steps,
  innerLearningRate: stepSize,
  innerWeightDecay: stepDecay,
  entropyWeight: entropy,
}: HullOptions): HullSearchOptions {
  return { steps, learningRate: stepSize, weightDecay: stepDecay, entropyWeight: entropy };
}

/** A model at hand: its function, its weights in the type it computes in, and where. */
export interface LocalModel {
  readonly model: Pick<Model, "architecture" | "tokenizer">;
  readonly weights: Weights;
  readonly device: Device;
}

/** One text to be attacked; its random stream decides the start of its search, whatever lies beside it in the batch. */
export interface HullText {
  readonly encoding: Encoding;
  readonly modifiableWords: ModifiableWords;
  readonly label: number;
  readonly rng: Rng;
}

/** What the search settled on for one text: the slot of most weight for each open word, and that weight. */
export interface HullSelection {
  readonly replacementIndices: Int32Array;
  readonly mixtureWeights: Float32Array;
}

/** ASCC as an attack on one batch: searches the hull for the largest cross-entropy, then takes each word's slot of most weight. */
export function findWorstCaseSubstitutions(
  { model, weights, device }: LocalModel,
  texts: readonly HullText[],
  options: HullOptions,
): HullSelection[] {
  const { architecture: shape, tokenizer } = model;
  return scope(() => {
    const padded = padBatch(
      texts.map((text) => text.encoding),
      tokenizer.special.padId,
    );
    const host = packHull(
      texts.map((text) => text.modifiableWords),
      padded.sequenceLength,
      getHullWidth(options),
    );
    const size = [host.count, host.width];
    const hull = toHull(host, device);
    const input = toModelInput(padded, device);
    const labels = tensor(
      Int32Array.from(texts, (text) => text.label),
      [texts.length],
      { device },
    );
    const fixed = mapWeights(weights, (weight) => weight.detach());
    const sumReduction = 2;
    const gain = (embedded: Tensor): Tensor =>
      crossEntropyLoss(
        forward(shape, fixed, { embeddingOutput: embedded, attentionBias: input.attentionBias }, evalMode).logits,
        labels,
        null,
        sumReduction,
        -100,
        0,
      );
    const start = tensor(
      sampleInitialLogits(texts, size, computeInitialStd(padded.sequenceLength, options.candidatesPerWord)),
      size,
      { device },
    );
    const mixtureWeights = searchHull(
      embedHull(shape.config, fixed, input, hull, evalMode),
      hull,
      start,
      gain,
      toHullSearchOptions(options),
    );
    return splitByText(texts, mixtureWeights.argmax(-1).toInt32Array(), mixtureWeights.amax([-1]).toFloat32Array());
  });
}

function sampleInitialLogits(texts: readonly HullText[], [count, width]: readonly number[], std: number): Float32Array {
  const start = new Float32Array(count! * width!);
  let at = 0;
  for (const { modifiableWords: open, rng } of texts)
    for (let i = 0; i < open.candidateIds.length * width!; i++) start[at++] = std * rng.normal();
  return start;
}

/** A batch's slots, text by text. */
function splitByText(texts: readonly HullText[], slots: Int32Array, mixtureWeights: Float32Array): HullSelection[] {
  let at = 0;
  return texts.map(({ modifiableWords: open }) => {
    const start = at;
    at += open.candidateIds.length;
    return { replacementIndices: slots.slice(start, at), mixtureWeights: mixtureWeights.slice(start, at) };
  });
}

/** The text with those slots in the places of its open words. */
export function withReplacements(encoded: Encoding, open: ModifiableWords, slots: Int32Array): Encoding {
  const ids = encoded.ids.slice();
  for (const [i, position] of open.tokenPositions.entries()) ids[position] = open.candidateIds[i]![slots[i]!]!;
  return { ...encoded, ids };
}
