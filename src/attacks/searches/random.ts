import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import { expandWords, findFirst, type Problem, Sampled, type ScoredText, type Search, score } from "../protocol.js";

/** Texts per request, so that thousands of samples need little memory. */
const groupSize = 256;

/**
 * Texts with random candidates of random words, until one reaches the goal. With `countsAll`, all
 * are scored, which gives the fraction of texts that reach it.
 */
export function randomSearch(samples: number, countsAll = false): Search {
  return {
    name: `${samples} random texts`,
    cost: `up to ${samples + 1}`,
    *run(problem, rng) {
      const { text: original } = problem.original;
      const candidates = yield* expandWords(problem);
      if (candidates.size === 0) return countsAll ? new Sampled(original, samples, 0) : original;
      let last = original;
      function* listTexts(): Generator<EditedText> {
        for (let i = 0; i < samples; i++) {
          last = drawText(problem, candidates, rng);
          yield last;
        }
      }
      if (!countsAll) return (yield* findFirst(listTexts(), 4)) ?? last;
      let [flipped, best]: [number, ScoredText] = [0, problem.original];
      const texts = listTexts();
      for (let done = 0; done < samples; done += groupSize) {
        const group = Array.from({ length: Math.min(groupSize, samples - done) }, () => ({ text: next(texts) }));
        for (const scored of yield* score(group)) {
          flipped += Number(scored.isReached);
          if (scored.value > best.value) best = scored;
        }
      }
      return new Sampled(best.text, samples, flipped);
    },
  };
}

function next(texts: Iterator<EditedText>): EditedText {
  return texts.next().value as EditedText;
}

/** Every word takes one of its candidates or stays, each with the same probability. */
function drawText(problem: Problem, candidates: ReadonlyMap<number, readonly EditedText[]>, rng: Rng): EditedText {
  let { text } = problem.original;
  for (const position of rng.shuffle([...candidates.keys()])) {
    const words = candidates.get(position)!;
    const index = rng.integer(words.length + 1);
    if (index === 0) continue;
    const changed = text.apply(words[index - 1]!.edit!);
    if (problem.isAllowed(changed)) text = changed;
  }
  return text;
}
