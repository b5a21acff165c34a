import type { EditedText } from "../edited-text.js";
import { expandWords, findFirst, type Search } from "../protocol.js";

/** Texts with random candidates of random words, until one reaches the goal. */
export function randomSearch(samples: number): Search {
  return {
    name: `${samples} random texts`,
    cost: `up to ${samples + 1}`,
    *run(problem, rng) {
      const { text: original } = problem.original;
      const candidates = yield* expandWords(problem);
      const positions = [...candidates.keys()];
      if (positions.length === 0) return original;
      const texts = Array.from({ length: samples }, () => {
        let text: EditedText = original;
        for (const position of rng.shuffle([...positions])) {
          const words = candidates.get(position)!;
          const index = rng.integer(words.length + 1);
          if (index === 0) continue;
          const { edit } = words[index - 1]!;
          const next = text.apply(edit!);
          if (problem.isAllowed(next)) text = next;
        }
        return text;
      });
      return (yield* findFirst(texts, 4)) ?? texts.at(-1)!;
    },
  };
}
