import { embedHull, initialDeviation, logShares, mixSlots, searchHull, toHull } from "../attacks/convex-hull.js";
import { type HullOptions, type HullText, hullWidth, type ModelAtHand, searchOf } from "../attacks/hardest-slots.js";
import { packHull } from "../attacks/open-words.js";
import { forward, toInput } from "../models/index.js";
import { divergences, evaluating, mapWeights } from "../nn/index.js";
import { noGrad, type Rng, scope, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";

/** How far one text's prediction was moved, as KL(clean || perturbed). */
export interface Strength {
  /** By the adversary's search in the convex hull. */
  readonly searched: number;
  /** By the best of the random mixtures. */
  readonly random: number;
}

/** Whether the search of RIFT eq. 8 is worth its steps: beside the best of some mixtures drawn evenly from the same hull. */
export function adversaryStrength(
  { model, weights, device }: ModelAtHand,
  texts: readonly Omit<HullText, "label">[],
  options: HullOptions,
  mixtures = 10,
): Strength[] {
  const { shape, tokenizer } = model;
  return scope(() => {
    const padded = padBatch(
      texts.map((text) => text.encoded),
      tokenizer.special.pad,
    );
    const open = texts.map((text) => text.open);
    const host = packHull(open, padded.length, hullWidth(options));
    const hull = toHull(host, device);
    const input = toInput(padded, device);
    const fixed = mapWeights(weights, (weight) => weight.detach());
    const embedding = embedHull(shape.config, fixed, input, hull, evaluating);
    const logits = (embedded: Tensor): Tensor => forward(shape, fixed, { embedded, bias: input.bias }, evaluating).logits;
    const clean = scope(() => logits(embedding.text));
    const moved = (shares: Tensor): Float32Array =>
      scope(() => noGrad(() => divergences(clean, logits(mixSlots(embedding, hull, shares))).floats()));

    const draw = (one: (rng: Rng) => number, name: string): Tensor => {
      const values = new Float32Array(host.count * host.width);
      let at = 0;
      for (const [i, { rng }] of texts.entries()) {
        const stream = rng.fork(name);
        for (let j = 0; j < open[i]!.tokens.length * host.width; j++) values[at++] = one(stream);
      }
      return tensor(values, [host.count, host.width], { device });
    };
    const deviation = initialDeviation(padded.length, options.slots);
    const start = draw((rng) => deviation * rng.normal(), "search");
    const gain = (embedded: Tensor): Tensor => divergences(clean, logits(embedded)).sum();
    const searched = moved(searchHull(embedding, hull, start, gain, searchOf(options)));
    const random = new Float32Array(texts.length);
    for (let i = 0; i < mixtures; i++) {
      // Exponential draws, divided by their sum, lie evenly in the hull.
      const shares = logShares(
        draw((rng) => Math.log(-Math.log(1 - rng.next())), `mixture ${i}`),
        hull.open,
      ).exp();
      for (const [row, value] of moved(shares).entries()) random[row] = Math.max(random[row]!, value);
    }
    return texts.map((_, row) => ({ searched: searched[row]!, random: random[row]! }));
  });
}

/** The share of texts with an open word on which the search moves the prediction further than chance does. */
export function shareBeaten(strengths: readonly Strength[]): number {
  return strengths.filter(({ searched, random }) => searched > random).length / strengths.length;
}
