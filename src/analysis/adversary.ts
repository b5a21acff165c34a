import {
  getHullWidth,
  type HullOptions,
  type HullText,
  type LocalModel,
  toHullSearchOptions,
} from "../attacks/ascc-search.js";
import {
  computeInitialStd,
  embedHull,
  logMixtureWeights,
  mixEmbeddings,
  searchHull,
  toHull,
} from "../attacks/convex-hull.js";
import { packHull } from "../attacks/open-words.js";
import { forward, toModelInput } from "../models/index.js";
import { evalMode, klDivergencePerExample, mapWeights } from "../nn/index.js";
import { noGrad, type Rng, scope, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";

/** How far one text's prediction was moved, as KL(clean || perturbed). */
export interface AdversaryStrength {
  /** By the adversary's search in the convex hull. */
  readonly searched: number;
  /** By the best of the random mixtures. */
  readonly random: number;
}

/** Whether the search of RIFT eq. 8 is worth its steps: beside the best of some mixtures drawn evenly from the same hull. */
export function measureAdversaryStrength(
  { model, weights, device }: LocalModel,
  texts: readonly Omit<HullText, "label">[],
  options: HullOptions,
  mixtures = 10,
): AdversaryStrength[] {
  const { architecture: shape, tokenizer } = model;
  return scope(() => {
    const padded = padBatch(
      texts.map((text) => text.encoding),
      tokenizer.special.padId,
    );
    const open = texts.map((text) => text.modifiableWords);
    const host = packHull(open, padded.sequenceLength, getHullWidth(options));
    const hull = toHull(host, device);
    const input = toModelInput(padded, device);
    const fixed = mapWeights(weights, (weight) => weight.detach());
    const embedding = embedHull(shape.config, fixed, input, hull, evalMode);
    const logits = (embedded: Tensor): Tensor =>
      forward(shape, fixed, { embeddingOutput: embedded, attentionBias: input.attentionBias }, evalMode).logits;
    const clean = scope(() => logits(embedding.text));
    const measureDivergence = (mixtureWeights: Tensor): Float32Array =>
      scope(() =>
        noGrad(() =>
          klDivergencePerExample(clean, logits(mixEmbeddings(embedding, hull, mixtureWeights))).toFloat32Array(),
        ),
      );

    const sampleTensor = (one: (rng: Rng) => number, name: string): Tensor => {
      const values = new Float32Array(host.count * host.width);
      let at = 0;
      for (const [i, { rng }] of texts.entries()) {
        const stream = rng.fork(name);
        for (let j = 0; j < open[i]!.candidateIds.length * host.width; j++) values[at++] = one(stream);
      }
      return tensor(values, [host.count, host.width], { device });
    };
    const deviation = computeInitialStd(padded.sequenceLength, options.candidatesPerWord);
    const start = sampleTensor((rng) => deviation * rng.normal(), "search");
    const gain = (embedded: Tensor): Tensor => klDivergencePerExample(clean, logits(embedded)).sum();
    const searched = measureDivergence(searchHull(embedding, hull, start, gain, toHullSearchOptions(options)));
    const random = new Float32Array(texts.length);
    for (let i = 0; i < mixtures; i++) {
      // Exponential draws, divided by their sum, lie evenly in the hull.
      const mixtureWeights = logMixtureWeights(
        sampleTensor((rng) => Math.log(-Math.log(1 - rng.next())), `mixture ${i}`),
        hull.candidateMask,
      ).exp();
      for (const [row, value] of measureDivergence(mixtureWeights).entries())
        random[row] = Math.max(random[row]!, value);
    }
    return texts.map((_, row) => ({ searched: searched[row]!, random: random[row]! }));
  });
}

/** The share of texts with an open word on which the search moves the prediction further than chance does. */
export function computeWinRate(strengths: readonly AdversaryStrength[]): number {
  return strengths.filter(({ searched, random }) => searched > random).length / strengths.length;
}
