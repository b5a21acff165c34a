import { z } from "zod";
import { forward, type Model, toInput } from "../models/index.js";
import { evaluating, mapWeights, type Weights } from "../nn/index.js";
import { crossEntropyLoss, type Device, type Rng, scope, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoded } from "../text/encoding.js";
import { maximumSubstitutes } from "../text/substitutions.js";
import { embedHull, type HullSearch, initialDeviation, searchHull, toHull } from "./convex-hull.js";
import { type OpenWords, packHull } from "./open-words.js";

/** What the search in the convex hull can be told: the same in training and in attack. */
export const hullSchema = z.strictObject({
  steps: z.number().int().nonnegative().default(10).describe("steps of the search"),
  stepSize: z.number().positive().default(1).describe("learning rate of the search"),
  stepDecay: z.number().nonnegative().default(2e-5).describe("weight decay of the search"),
  entropy: z
    .number()
    .nonnegative()
    .default(15 / 38400)
    .describe("weight of the shares' entropy, summed over the batch: more makes single slots"),
  slots: z.number().int().min(1).max(10).default(10).describe("slots a word, itself among them"),
});
export type HullOptions = z.output<typeof hullSchema>;

/** The slots that can be used at all: a word has no more substitutes than a table may hold. */
export function hullWidth({ slots }: Pick<HullOptions, "slots">): number {
  return Math.min(slots, 1 + maximumSubstitutes);
}

/** The options as the search takes them. */
export function searchOf({ steps, stepSize, stepDecay, entropy }: HullOptions): HullSearch {
  return { steps, learningRate: stepSize, decay: stepDecay, entropy };
}

/** A model at hand: its function, its weights in the type it computes in, and where. */
export interface ModelAtHand {
  readonly model: Pick<Model, "shape" | "tokenizer">;
  readonly weights: Weights;
  readonly device: Device;
}

/** One text to be attacked; its random stream decides the start of its search, whatever lies beside it in the batch. */
export interface HullText {
  readonly encoded: Encoded;
  readonly open: OpenWords;
  readonly label: number;
  readonly rng: Rng;
}

/** What the search settled on for one text: the slot of most weight for each open word, and that weight. */
export interface HullPicks {
  readonly slots: Int32Array;
  readonly shares: Float32Array;
}

/** ASCC as an attack on one batch: searches the hull for the largest cross-entropy, then takes each word's slot of most weight. */
export function hardestSlots({ model, weights, device }: ModelAtHand, texts: readonly HullText[], options: HullOptions): HullPicks[] {
  const { shape, tokenizer } = model;
  return scope(() => {
    const padded = padBatch(
      texts.map((text) => text.encoded),
      tokenizer.special.pad,
    );
    const host = packHull(
      texts.map((text) => text.open),
      padded.length,
      hullWidth(options),
    );
    const size = [host.count, host.width];
    const hull = toHull(host, device);
    const input = toInput(padded, device);
    const labels = tensor(
      Int32Array.from(texts, (text) => text.label),
      [texts.length],
      { device },
    );
    const fixed = mapWeights(weights, (weight) => weight.detach());
    const sumReduction = 2;
    const gain = (embedded: Tensor): Tensor =>
      crossEntropyLoss(forward(shape, fixed, { embedded, bias: input.bias }, evaluating).logits, labels, null, sumReduction, -100, 0);
    const start = tensor(startOf(texts, size, initialDeviation(padded.length, options.slots)), size, { device });
    const shares = searchHull(embedHull(shape.config, fixed, input, hull, evaluating), hull, start, gain, searchOf(options));
    return split(texts, shares.argmax(-1).integers(), shares.amax([-1]).floats());
  });
}

function startOf(texts: readonly HullText[], [count, width]: readonly number[], deviation: number): Float32Array {
  const start = new Float32Array(count! * width!);
  let at = 0;
  for (const { open, rng } of texts) for (let i = 0; i < open.tokens.length * width!; i++) start[at++] = deviation * rng.normal();
  return start;
}

/** A batch's slots, text by text. */
function split(texts: readonly HullText[], slots: Int32Array, shares: Float32Array): HullPicks[] {
  let at = 0;
  return texts.map(({ open }) => {
    const start = at;
    at += open.tokens.length;
    return { slots: slots.slice(start, at), shares: shares.slice(start, at) };
  });
}

/** The text with those slots in the places of its open words. */
export function withSlots(encoded: Encoded, open: OpenWords, slots: Int32Array): Encoded {
  const ids = encoded.ids.slice();
  for (const [i, position] of open.positions.entries()) ids[position] = open.tokens[i]![slots[i]!]!;
  return { ...encoded, ids };
}
