/** A set of substitutions, as indices of a list, the largest index last. */
export type Combination = readonly number[];

/**
 * Counts the ways to change exactly `changes` words: the elementary symmetric polynomial of the
 * numbers of substitutes.
 */
export function countCombinations(substitutes: readonly number[], changes: number): number {
  const counts = [1, ...new Array<number>(changes).fill(0)];
  for (const size of substitutes)
    for (let chosen = changes; chosen > 0; chosen--) counts[chosen]! += size * counts[chosen - 1]!;
  return counts[changes]!;
}

/**
 * Lists all sets of `changes` substitutions of different words. `positions` has the word of each
 * substitution, the most promising substitution first. A set comes before all sets whose last
 * substitution is less promising. So the sets of the best substitutions come first, and no list has
 * to be sorted or stored.
 */
export function enumerateCombinations(positions: ArrayLike<number>, changes: number): Generator<number[]> {
  const { length } = positions;
  /** For each substitution the first one of its word, and how many words come before it. */
  const firsts = new Int32Array(length);
  const wordsBefore = new Int32Array(length + 1);
  const known = new Map<number, number>();
  for (let i = 0; i < length; i++) {
    firsts[i] = known.get(positions[i]!) ?? i;
    known.set(positions[i]!, firsts[i]!);
    wordsBefore[i + 1] = known.size;
  }
  const chosen = new Array<number>(changes);
  function* choose(count: number, end: number): Generator<number[]> {
    for (let last = count - 1; last < end; last++) {
      let isUsed = false;
      let left = wordsBefore[last]! - Number(firsts[last]! < last);
      for (let i = count; i < changes; i++) {
        const first = firsts[chosen[i]!]!;
        if (first === firsts[last]) isUsed = true;
        if (first < last) left--;
      }
      // Without enough other words before this one, no set ends here.
      if (isUsed || left < count - 1) continue;
      chosen[count - 1] = last;
      if (count === 1) yield chosen.slice();
      else yield* choose(count - 1, last);
    }
  }
  return choose(changes, length);
}
