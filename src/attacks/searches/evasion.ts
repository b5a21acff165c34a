import { type ScoredText, type Search, score, scoreCandidates } from "../protocol.js";
import { visitRankedWords } from "./word-importance-ranking.js";

/**
 * Tries the techniques against guard classifiers from cheap to expensive: rewriting the complete
 * text, changing the characters of important words, and adding benign words one by one.
 */
export function evasionSearch({
  maxAddedWords,
  placement = "append",
}: {
  readonly maxAddedWords: number;
  /** Benign words are added at the end, or before any word. */
  readonly placement?: "append" | "insert";
}): Search {
  return {
    name: `rewriting, then words by importance, then up to ${maxAddedWords} benign words`,
    cost: "7, then 1 + words + 5 per word visited, then 30 per added word",
    *run(problem, rng) {
      const { text } = problem.original;
      const rewritten = yield* scoreCandidates(text, problem.findOpenPositions(text), "text");
      const reached = rewritten.filter(({ isReached }) => isReached);
      if (reached.length > 0) return reached.reduce((a, b) => (b.text.numChanged < a.text.numChanged ? b : a)).text;
      const changed = yield* visitRankedWords(problem, { by: "delete" }, rng, ["swap"]);
      let best: ScoredText = rewritten[0] ?? problem.original;
      let current: ScoredText = problem.original;
      if (changed !== text) {
        // The ranking search ends with the last text that it accepted, which has a score already.
        const [first] = yield* score([{ text: changed }]);
        current = first!;
        if (current.isReached) return current.text;
      }
      for (let added = 0; added < maxAddedWords; added++) {
        const [next] = yield* scoreCandidates(current.text, problem.findOpenPositions(current.text), placement);
        if (!next || next.value <= current.value) break;
        current = next;
        if (current.isReached) return current.text;
      }
      if (current.value > best.value) best = current;
      return best.text;
    },
  };
}
