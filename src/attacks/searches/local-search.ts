import type { EditedText } from "../edited-text.js";
import { expand, type Problem, type ScoredText, type Search, type SearchGenerator, score } from "../protocol.js";

/**
 * Local search (Liu et al. 2021): in every step, the best of all texts that differ in one word. A
 * word may be changed, changed again or restored. It ends if no such text is better.
 */
export function localSearch(): Search {
  return {
    name: "local search: the best change of one word, until none is better",
    cost: "the candidates of all words per change, and once more at the end",
    *run(problem) {
      const best = yield* climb(problem, problem.original);
      if (best.isReached) return best.text;
      const [opposite] = yield* score((yield* listOpposite(problem, best.text)).map((text) => ({ text })));
      return opposite && opposite.value > best.value ? opposite.text : best.text;
    },
  };
}

/**
 * Climbs from a text to a local optimum, or to a text that reaches the goal. If `exchanges`, the
 * texts in which one changed word is restored and another one is changed are neighbors, too. They
 * matter if no further word may change.
 */
export function* climb(problem: Problem, start: ScoredText, exchanges = false): SearchGenerator<ScoredText> {
  let current = start;
  for (;;) {
    const neighbors = [...(yield* expand(current.text, problem.findOpenPositions(current.text)))];
    if (exchanges) neighbors.push(...(yield* listExchanges(problem, current.text)));
    const scored = yield* score(neighbors.map((text) => ({ text })));
    let best = current;
    for (const each of scored) if (each.value > best.value) best = each;
    if (best === current || (best.isReached && !problem.isMaximized)) return best;
    current = best;
  }
}

/** The texts in which a changed word is restored and another word is changed. */
function* listExchanges(problem: Problem, text: EditedText): SearchGenerator<readonly EditedText[]> {
  const positions = [...Array(text.length).keys()];
  const texts: EditedText[] = [];
  for (const position of positions.filter((each) => text.isChanged(each))) {
    const { origin } = text.slots[position]!;
    if (origin < 0) continue;
    const restored = text.apply({ kind: "replace", position, word: text.original.getWord(origin) });
    const open = problem.findOpenPositions(restored).filter((each) => each !== position && !restored.isChanged(each));
    texts.push(...(yield* expand(restored, open)));
  }
  return texts;
}

/**
 * The text with the other choice for every word, if each has one substitute only. The guarantee of
 * the paper needs this text, too.
 */
function* listOpposite(problem: Problem, text: EditedText): SearchGenerator<EditedText[]> {
  const { original } = problem;
  const candidates = yield* expand(original.text, problem.findOpenPositions(original.text));
  const positions = candidates.map(({ position }) => position);
  if (new Set(positions).size < positions.length) return [];
  const other = candidates.filter(({ position }) => !text.isChanged(position));
  if (other.length === 0) return [];
  const words = other.map((each): [number, string] => [each.position, each.getWord(each.position)]);
  const opposite = original.text.replaceAll(new Map(words));
  return problem.isAllowed(opposite) ? [opposite] : [];
}
