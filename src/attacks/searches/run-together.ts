import type { ScoredText, SearchGenerator } from "../protocol.js";

/**
 * Runs searches in step, so that their texts are scored in common batches. Each search must have
 * its own random stream, and then the results are those of running them one after the other.
 */
export function* runTogether<Result>(searches: readonly SearchGenerator<Result>[]): SearchGenerator<Result[]> {
  const steps = searches.map((search) => search.next([]));
  for (;;) {
    for (const [i, search] of searches.entries()) {
      let step = steps[i]!;
      while (!step.done && !("kind" in step.value && step.value.kind === "score")) step = search.next(yield step.value);
      steps[i] = step;
    }
    const waiting = steps.flatMap((step, i) =>
      !step.done && "kind" in step.value && step.value.kind === "score"
        ? [{ i, candidates: step.value.candidates }]
        : [],
    );
    if (waiting.length === 0) return steps.map(({ value }) => value as Result);
    const candidates = waiting.flatMap((each) => each.candidates);
    const scored = (yield { kind: "score", candidates }) as readonly ScoredText[];
    let start = 0;
    for (const { i, candidates: own } of waiting) {
      steps[i] = searches[i]!.next(scored.slice(start, start + own.length));
      start += own.length;
    }
  }
}
