/**
 * Fleiss' kappa: how much raters agree beyond chance. Each item has the number of raters who chose
 * each category. Items with fewer than two ratings are left out. Null if none is left or if chance
 * alone explains complete agreement.
 *
 *     computeFleissKappa([[2, 0], [1, 1], [0, 2]]); // [yes, no] per item
 */
export function computeFleissKappa(items: readonly (readonly number[])[]): number | null {
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const rated = items.filter((counts) => sum(counts) > 1);
  if (rated.length === 0) return null;
  // Observed: the fraction of pairs of raters who agree on an item, averaged over the items.
  const observed =
    sum(rated.map((counts) => sum(counts.map((count) => count * (count - 1))) / (sum(counts) * (sum(counts) - 1)))) /
    rated.length;
  // Expected: the probability that two random ratings agree.
  const total = sum(rated.map(sum));
  const expected = sum(rated[0]!.map((_, category) => (sum(rated.map((counts) => counts[category]!)) / total) ** 2));
  return expected === 1 ? null : (observed - expected) / (1 - expected);
}
