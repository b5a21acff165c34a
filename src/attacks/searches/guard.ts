import type { EditedText } from "../edited-text.js";
import { expand, type ScoredText, type Search, type SearchGenerator, score } from "../protocol.js";
import type { GradientSource } from "../resources.js";
import { rankWords, visitWords } from "./word-importance-ranking.js";

interface GuardSearchOptions {
  readonly maxAddedWords: number;
  /** The place of benign words: at the end, or before any word. */
  readonly placement?: "append" | "insert";
  /** The number of texts it tries if the run has no query budget. */
  readonly maxQueries?: number;
  /** Ranks words by gradients, and changes only the half with the largest ones. Default: by deletion, all words. */
  readonly gradient?: GradientSource;
}

/** The best texts so far, which the next changes start from. */
const keptTexts = 8;
const childrenPerRound = 16;
/** Rounds without a new text after which nothing is left to try. */
const maxEmptyRounds = 10;

/**
 * Attacks a guard as a whole, from cheap to expensive: rewritings of the complete text and pairs of
 * them, then words by importance, benign words, and random changes of the best texts until the
 * budget is spent. Each step starts from what the guard answered to the ones before.
 */
export function guardSearch({
  maxAddedWords,
  placement = "append",
  maxQueries = 1000,
  gradient,
}: GuardSearchOptions): Search {
  return {
    name: `rewriting, words by ${gradient ? "gradient" : "importance"}, up to ${maxAddedWords} benign words, then random changes of the best texts`,
    cost: `the query budget, or ${maxQueries}`,
    *run(problem, rng) {
      const { text: original } = problem.original;
      const limit = Number.isFinite(problem.budget) ? problem.budget : maxQueries;
      const seen = new Set([getKey(original)]);
      let best: readonly ScoredText[] = [problem.original];
      let tried = 1;
      /** Scores the texts that are new, and returns the first that reaches the goal. */
      function* tryTexts(texts: readonly EditedText[]): SearchGenerator<EditedText | undefined> {
        const fresh = texts.filter((text) => !seen.has(getKey(text)) && seen.add(getKey(text)));
        const scored = yield* score(fresh.map((text) => ({ text, sequential: true })));
        tried += scored.length;
        // Of equal values the newest come first, so that changes add up if a guard only answers yes or no.
        const sorted = [...scored, ...best].sort((a, b) => b.value - a.value);
        best = [...sorted.slice(0, keptTexts - 1), problem.original];
        return scored.find(({ isReached }) => isReached)?.text;
      }

      for (const sources of [1, 3]) {
        const starts = best.slice(0, sources).map(({ text }) => text);
        for (const start of starts) {
          const found = yield* tryTexts(yield* expand(start, problem.findOpenPositions(start), "text"));
          if (found) return found;
        }
      }
      const ranked = yield* rankWords(problem, gradient ? { by: "gradient", source: gradient } : { by: "delete" }, rng);
      const visited = gradient ? ranked.slice(0, Math.ceil(ranked.length / 2)) : ranked;
      const found = yield* tryTexts([yield* visitWords(problem, visited, ["swap"])]);
      if (found) return found;
      for (let added = 0; added < maxAddedWords; added++) {
        const before = best[0]!;
        const candidates = yield* expand(before.text, problem.findOpenPositions(before.text), placement);
        const next = yield* tryTexts(candidates);
        if (next) return next;
        if (best[0] === before) break;
      }

      const isVisited = (text: EditedText, position: number): boolean =>
        !gradient || visited.includes(text.slots[position]!.origin);
      const draws = rng.fork("guard");
      for (let empty = 0; empty < maxEmptyRounds && tried < limit; ) {
        const triedBefore = tried;
        const children: EditedText[] = [];
        for (let i = 0; i < childrenPerRound; i++) {
          const { text } = best[draws.integer(best.length)]!;
          const open = problem.findOpenPositions(text);
          if (open.length === 0) continue;
          // Words change most often, because there are many of them.
          const kind = (["swap", "swap", "swap", "text", placement] as const)[draws.integer(5)]!;
          const words = kind === "swap" ? open.filter((position) => isVisited(text, position)) : open;
          if (words.length === 0) continue;
          const positions = kind === "swap" ? [words[draws.integer(words.length)]!] : open;
          const candidates = yield* expand(text, positions, kind);
          if (candidates.length > 0) children.push(candidates[draws.integer(candidates.length)]!);
        }
        const reached = yield* tryTexts(children);
        if (reached) return reached;
        empty = tried === triedBefore ? empty + 1 : 0;
      }
      return best[0]!.text;
    },
  };
}

function getKey({ texts }: EditedText): string {
  return texts.join("\n");
}
