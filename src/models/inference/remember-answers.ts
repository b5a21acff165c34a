import { predictInCalls } from "./predict-in-calls.js";
import type { PredictOptions, Predictor, PreparedText } from "./predictor.js";
import { createScore, getRow, type Score } from "./score.js";
import { computeContentKey, type ScoreCache } from "./score-cache.js";

/** Wraps a predictor so that every distinct text is computed once. */
export function rememberAnswers(predictor: Predictor, cache: ScoreCache): Predictor {
  const { returnsLogits = false } = predictor;
  return {
    ...predictor,
    async predict(items: readonly PreparedText[], { maxCallSize, onCall }: PredictOptions = {}) {
      const answers = new Array<Score>(items.length);
      /** The indices of each text that is not in the cache. */
      const unknown = new Map<string, number[]>();
      for (const [i, { content }] of items.entries()) {
        const key = computeContentKey(content);
        const known = cache.get(key);
        if (known) answers[i] = createScore(known, returnsLogits);
        else unknown.set(key, [...(unknown.get(key) ?? []), i]);
      }
      const groups = [...unknown];
      const missing = groups.map(([, [first]]) => items[first!]!);
      await predictInCalls(predictor, missing, {
        ...(maxCallSize !== undefined && { maxCallSize }),
        onCall(found) {
          const all = new Map<number, Score>();
          for (const [at, answer] of found) {
            const [key, indices] = groups[at]!;
            cache.set(key, getRow(answer));
            for (const i of indices) {
              answers[i] = answer;
              all.set(i, answer);
            }
          }
          onCall?.(all);
        },
      });
      return answers;
    },
  };
}
