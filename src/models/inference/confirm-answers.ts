import { selectOptions } from "./predict-in-calls.js";
import type { Accuracy, Layered, PredictOptions, Predictor } from "./predictor.js";
import { logitMargin, type Score } from "./score.js";

/** Optional: a predictor that repeats decisions in float32 up to a logit margin. */
export interface DecidedMargin {
  readonly decidedMargin: number;
  /** The same predictor with another margin. */
  changeMargin(decidedMargin: number): Predictor & Layered & DecidedMargin;
}

/**
 * Wraps a predictor in low precision so that float32 gives every exact answer. With a label, it
 * repeats an answer if its logit margin is below `decidedMargin`, whatever is cached.
 */
export function confirmAnswers<Low extends Predictor>(
  low: Low,
  exact: Predictor,
  decidedMargin: number,
): Low & Layered & DecidedMargin {
  return {
    ...low,
    decidedMargin,
    changeMargin: (changed) => confirmAnswers(low, exact, changed),
    wrapEach: (wrap) => confirmAnswers(wrap(low), wrap(exact), decidedMargin),
    async predict(items, options: PredictOptions = {}) {
      const { getAccuracy = (): Accuracy => "exact" } = options;
      const answers = new Array<Score>(items.length);
      const predict = async (predictor: Predictor, indices: readonly number[]): Promise<void> => {
        if (indices.length === 0) return;
        const texts = indices.map((i) => items[i]!);
        const found = await predictor.predict(texts, selectOptions(options, indices));
        for (const [at, i] of indices.entries()) answers[i] = found[at]!;
      };
      const indices = [...items.keys()];
      // All come in low precision before the first one is repeated, so that both fill batches.
      await predict(
        low,
        indices.filter((i) => getAccuracy(i) !== "exact"),
      );
      const mayDiffer = (accuracy: Accuracy, score: Score | undefined): boolean =>
        typeof accuracy === "object" && logitMargin(score!, accuracy.label) < decidedMargin;
      const repeated = indices.filter((i) => mayDiffer(getAccuracy(i), answers[i]));
      const chosen = new Set(repeated);
      await predict(
        exact,
        indices.filter((i) => getAccuracy(i) === "exact" || chosen.has(i)),
      );
      options.onRepeat?.(repeated.length);
      return answers;
    },
  };
}
