import { type ScoredText, type Search, type SearchGenerator, scoreCandidates } from "../protocol.js";
import { runTogether } from "./run-together.js";

/**
 * Scores all candidates of the `width` best texts in every step, and keeps the best ones. No
 * improvement is required unless the goal is a maximum. Width 1 is a greedy search. Edits can undo
 * each other, so a text that the beam has had does not return to it. With `returns`, it does, for
 * a search that something else ends.
 */
export function beamSearch(width: number, { returns = false }: { readonly returns?: boolean } = {}): Search {
  return {
    name: width === 1 ? "greedy over all words" : `beam of ${width} texts`,
    cost: "the candidates of all words, for every text of the beam, per change",
    *run(problem) {
      let beam: readonly ScoredText[] = [problem.original];
      let best = problem.original;
      const visited = new Set([toKey(problem.original)]);
      // Each word can be replaced, and a word can be inserted before each. More edits change the same words again, and
      // letters can be inserted forever.
      const maxEdits = returns ? Number.POSITIVE_INFINITY : 2 * problem.original.text.length + 1;
      for (let edits = 0; edits < maxEdits; edits++) {
        const lists = yield* runTogether<ScoredText[]>(
          beam.map(
            ({ text }) => scoreCandidates(text, problem.findOpenPositions(text)) as SearchGenerator<ScoredText[]>,
          ),
        );
        const distinct = new Map(lists.flat().map((result) => [toKey(result), result]));
        const results = [...distinct.values()]
          .filter((result) => returns || !visited.has(toKey(result)))
          .sort((a, b) => b.value - a.value);
        const first = results[0];
        if (!first) return best.text;
        if (problem.isMaximized && first.value <= best.value) return best.text;
        best = first;
        if (first.isReached && !problem.isMaximized) return first.text;
        beam = results.slice(0, width);
        for (const each of beam) visited.add(toKey(each));
      }
      return best.text;
    },
  };
}

const toKey = ({ text }: ScoredText): string => text.texts.join("\n");
