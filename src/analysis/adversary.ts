import { type HullOptions, logMixtureWeights } from "../hull/convex-hull.js";
import { createHullBatch, type HullText, type LocalModel } from "../hull/hull-model.js";
import { klDivergencePerExample } from "../nn/index.js";
import { noGrad, scope, type Tensor } from "../tensor/index.js";

/** How much an adversary changed the prediction of a text, as KL(clean || perturbed). */
interface AdversaryStrength {
  /** By the search in the convex hull. */
  readonly searched: number;
  /** By the best of the random mixtures. */
  readonly random: number;
}

/** Compares the search of RIFT eq. 8 with the best of some random mixtures from the same hull. */
export function measureAdversaryStrength(
  victim: LocalModel,
  texts: readonly HullText[],
  options: HullOptions,
  numMixtures = 10,
): AdversaryStrength[] {
  return scope(() => {
    const batch = createHullBatch(victim, texts, options);
    const clean = batch.computeCleanLogits();
    const measureDivergence = (mixtureWeights: Tensor): Float32Array =>
      scope(() => noGrad(() => klDivergencePerExample(clean, batch.computeLogits(mixtureWeights)).toFloat32Array()));
    const initialLogits = batch.sample(
      ({ rng }) => rng.fork("search"),
      (rng) => batch.initialStd * rng.normal(),
    );
    const searched = measureDivergence(
      batch.search(initialLogits, (logits) => klDivergencePerExample(clean, logits).sum()),
    );
    const random = new Float32Array(texts.length);
    for (let i = 0; i < numMixtures; i++) {
      // Exponential draws divided by their sum are uniformly distributed in the hull.
      const logits = batch.sample(
        ({ rng }) => rng.fork(`mixture ${i}`),
        (rng) => Math.log(-Math.log(1 - rng.next())),
      );
      const divergences = measureDivergence(logMixtureWeights(logits, batch.hull.candidateMask).exp());
      for (const [row, divergence] of divergences.entries()) random[row] = Math.max(random[row]!, divergence);
    }
    return texts.map((_, row) => ({ searched: searched[row]!, random: random[row]! }));
  });
}

/** The fraction of texts whose prediction the search changes more than random mixtures do. */
export function computeWinRate(strengths: readonly AdversaryStrength[]): number {
  return strengths.filter(({ searched, random }) => searched > random).length / strengths.length;
}
