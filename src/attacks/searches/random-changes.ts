import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import {
  expand,
  findFirst,
  type Problem,
  type Search,
  type SearchGenerator,
  type TransformationKind,
} from "../protocol.js";

/** Texts per request, so that concurrent searches fill batches. */
const groupSize = 16;

/**
 * Texts with random changes of any kinds, whatever the model answers: the baseline that a search
 * with the same changes and the same number of queries must beat.
 */
export function randomChangesSearch(kinds: readonly TransformationKind[], samples: number): Search {
  return {
    name: `${samples} texts with random changes`,
    cost: `up to ${samples + 1}`,
    *run(problem, rng) {
      let last = problem.original.text;
      for (let done = 0; done < samples; done += groupSize) {
        const texts: EditedText[] = [];
        for (let i = done; i < Math.min(samples, done + groupSize); i++)
          texts.push(yield* drawChanges(problem, kinds, rng));
        const found = yield* findFirst(texts, groupSize);
        if (found) return found;
        last = texts.at(-1)!;
      }
      return last;
    },
  };
}

/** One change, or two, or up to as many as there are words: small numbers are as likely as large ones. */
function* drawChanges(problem: Problem, kinds: readonly TransformationKind[], rng: Rng): SearchGenerator {
  let { text } = problem.original;
  const doublings = Math.floor(Math.log2(Math.max(1, text.length))) + 1;
  const changes = 2 ** rng.integer(doublings);
  for (let i = 0; i < changes; i++) {
    const open = problem.findOpenPositions(text);
    if (open.length === 0) break;
    const kind = kinds[rng.integer(kinds.length)]!;
    const isLocal = kind !== "text" && kind !== "append";
    const candidates = yield* expand(text, isLocal ? [open[rng.integer(open.length)]!] : open, kind);
    if (candidates.length > 0) text = candidates[rng.integer(candidates.length)]!;
  }
  return text;
}
