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
export function* enumerateCombinations(
  positions: ArrayLike<number>,
  changes: number,
  end = positions.length,
): Generator<number[]> {
  if (changes === 0) {
    yield [];
    return;
  }
  for (let last = changes - 1; last < end; last++)
    for (const others of enumerateCombinations(positions, changes - 1, last)) {
      if (others.some((each) => positions[each] === positions[last])) continue;
      others.push(last);
      yield others;
    }
}
