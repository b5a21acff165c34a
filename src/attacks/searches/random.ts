import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import { expandWords, findFirst, type Problem, type Search } from "../protocol.js";

/** Texts with random candidates of random words, until one reaches the goal. */
export function randomSearch(samples: number): Search {
  return {
    name: `${samples} random texts`,
    cost: `up to ${samples + 1}`,
    *run(problem, rng) {
      const { text: original } = problem.original;
      const candidates = yield* expandWords(problem);
      if (candidates.size === 0) return original;
      let last = original;
      function* listTexts(): Generator<EditedText> {
        for (let i = 0; i < samples; i++) {
          last = drawText(problem, candidates, rng);
          yield last;
        }
      }
      return (yield* findFirst(listTexts(), 4)) ?? last;
    },
  };
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
