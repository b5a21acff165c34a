import type { EditedText } from "../edited-text.js";
import { expandWords, findFirst, type HiddenWord, type Problem, type Search, score } from "../protocol.js";
import { visitWords } from "./word-importance-ranking.js";

/**
 * Probability-weighted word saliency (Ren et al. 2019). The effect of each word's best candidate on
 * the original text, weighted by the softmax of the words' saliencies, determines the order of the
 * words. In that order, the changes accumulate until the goal is reached.
 */
export function weightedSaliencySearch(options: {
  /** The text on which the best candidate of a word is chosen. */
  readonly chooseOn: "original" | "current";
  /** Stands in the place of a word to measure its saliency. */
  readonly shown: HiddenWord["shown"];
  /** The weight of a word's saliency: how much its best candidate gains, or its value. */
  readonly weight?: "gain" | "value";
  /** Chooses one of several equally good candidates of a word. */
  readonly ties?: "first" | "last";
}): Search {
  const { chooseOn, shown, weight = "gain", ties = "first" } = options;
  return {
    name: `greedy, words ranked by weighted saliency, candidates chosen on the ${chooseOn} text`,
    cost:
      chooseOn === "original"
        ? "1 + words + the candidates of all words + changed words"
        : "1 + words + twice the candidates of all words",
    *run(problem) {
      const { original } = problem;
      const candidates = yield* expandWords(problem);
      // Words without candidates only enter the softmax's common denominator, which does not affect
      // the order. TextAttack hides them, too.
      const positions = weight === "value" ? problem.findOpenPositions(original.text) : [...candidates.keys()];
      if (positions.length === 0) return original.text;
      const texts = [...candidates.values()].flat();
      const scored = yield* score([
        ...positions.map((position) => ({ text: original.text, hidden: { position, shown } })),
        ...texts.map((text) => ({ text })),
      ]);
      const saliencies = softmax(positions.map((_, i) => scored[i]!.value));
      const best = new Map<number, { text: EditedText; value: number }>();
      for (const { text, value } of scored.slice(positions.length)) {
        const known = best.get(text.position)?.value ?? Number.NEGATIVE_INFINITY;
        if (value > known || (ties === "last" && value === known)) best.set(text.position, { text, value });
      }
      const base = weight === "gain" ? original.value : 0;
      const order = positions
        .map((position, i) => {
          const found = best.get(position);
          return { position, text: found?.text, score: found ? (found.value - base) * saliencies[i]! : 0 };
        })
        .sort((a, b) => b.score - a.score || a.position - b.position);
      if (chooseOn === "current")
        return yield* visitWords(
          problem,
          order.map(({ position }) => position),
        );
      const prefixes = listPrefixes(
        problem,
        order.flatMap(({ text }) => text ?? []),
      );
      return (yield* findFirst(prefixes)) ?? prefixes.at(-1) ?? original.text;
    },
  };
}

/** The text after the first change, after the first two, and so on, as far as it is allowed. */
function listPrefixes(problem: Problem, changes: readonly EditedText[]): EditedText[] {
  const prefixes: EditedText[] = [];
  let { text } = problem.original;
  for (const { edit } of changes) {
    text = text.apply(edit!);
    if (!problem.isAllowed(text)) break;
    prefixes.push(text);
  }
  return prefixes;
}

function softmax(values: readonly number[]): number[] {
  const exponentials = values.map(Math.exp);
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}
