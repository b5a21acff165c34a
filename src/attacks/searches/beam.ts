import { type ScoredText, type Search, type SearchGenerator, scoreCandidates } from "../protocol.js";
import { runTogether } from "./run-together.js";

/**
 * Scores all candidates of the `width` best texts in every step, and keeps the best ones. No
 * improvement is required unless the goal is a maximum. Width 1 is a greedy search.
 */
export function beamSearch(width: number): Search {
  return {
    name: width === 1 ? "greedy over all words" : `beam of ${width} texts`,
    cost: "the candidates of all words, for every text of the beam, per change",
    *run(problem) {
      let beam: readonly ScoredText[] = [problem.original];
      let best = problem.original;
      for (;;) {
        const lists = yield* runTogether<ScoredText[]>(
          beam.map(
            ({ text }) => scoreCandidates(text, problem.findOpenPositions(text)) as SearchGenerator<ScoredText[]>,
          ),
        );
        const results = removeDuplicates(lists.flat()).sort((a, b) => b.value - a.value);
        const first = results[0];
        if (!first) return best.text;
        if (problem.isMaximized && first.value <= best.value) return best.text;
        best = first;
        if (first.isReached && !problem.isMaximized) return first.text;
        beam = results.slice(0, width);
      }
    },
  };
}

function removeDuplicates(results: readonly ScoredText[]): ScoredText[] {
  const known = new Map(results.map((result) => [result.text.texts.join("\n"), result]));
  return [...known.values()];
}
