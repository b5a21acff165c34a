import type { EditedText } from "../edited-text.js";
import {
  type Candidate,
  expand,
  type Problem,
  type ScoredText,
  type Search,
  type SearchGenerator,
  score,
} from "../protocol.js";

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
    let best = current;
    let neighbors: Candidate[] = [];
    function* scoreNeighbors(): SearchGenerator<void> {
      for (const each of yield* score(neighbors)) if (each.value > best.value) best = each;
      neighbors = [];
    }
    for (const [text, positions] of listNeighborhoods(problem, current.text, exchanges)) {
      neighbors.push(...(yield* expand(text, positions)).map((each) => ({ text: each })));
      if (neighbors.length >= maxGroupSize) yield* scoreNeighbors();
    }
    yield* scoreNeighbors();
    if (best === current || (best.isReached && !problem.isMaximized)) return best;
    current = best;
  }
}

/**
 * A long text has more neighbors than a search may query or the memory holds. So they are created for a few words at a
 * time, and scored as soon as there are this many.
 */
const [maxGroupSize, wordsAtOnce] = [1024, 64];

/** Texts, each with positions to change: the text itself and, if `exchanges`, with one changed word restored. */
function* listNeighborhoods(
  problem: Problem,
  text: EditedText,
  exchanges: boolean,
): Generator<[EditedText, readonly number[]]> {
  for (const positions of group(problem.findOpenPositions(text), wordsAtOnce)) yield [text, positions];
  for (let position = 0; exchanges && position < text.length; position++) {
    const origin = text.getOrigin(position);
    if (!text.isChanged(position) || origin < 0) continue;
    const restored = text.apply({ kind: "replace", position, word: text.original.getWord(origin) });
    const open = problem.findOpenPositions(restored).filter((each) => each !== position && !restored.isChanged(each));
    for (const positions of group(open, wordsAtOnce)) yield [restored, positions];
  }
}

function* group<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}

/**
 * The text with the other choice for every word, if each has one substitute only. The guarantee of
 * the paper needs this text, too.
 */
function* listOpposite(problem: Problem, text: EditedText): SearchGenerator<EditedText[]> {
  const { original } = problem;
  const candidates: EditedText[] = [];
  for (const positions of group(problem.findOpenPositions(original.text), wordsAtOnce)) {
    const some = yield* expand(original.text, positions);
    if (new Set(some.map(({ position }) => position)).size < some.length) return [];
    candidates.push(...some);
  }
  const other = candidates.filter(({ position }) => !text.isChanged(position));
  if (other.length === 0) return [];
  const words = other.map((each): [number, string] => [each.position, each.getWord(each.position)]);
  const opposite = original.text.replaceAll(new Map(words));
  return problem.isAllowed(opposite) ? [opposite] : [];
}
