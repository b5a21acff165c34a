export interface BandPoint {
  readonly x: number;
  readonly y: number;
  readonly low: number;
  readonly high: number;
}

/** The mean over the seeds at each shared position, in a band from the lowest to the highest. */
export function joinSeeds(
  curves: readonly (readonly { readonly x: number; readonly y: number }[])[],
): readonly BandPoint[] {
  const [first = [], ...others] = curves.map((curve) => new Map(curve.map(({ x, y }) => [x, y])));
  return [...first].flatMap(([x, y]) => {
    const values = [y, ...others.flatMap((other) => other.get(x) ?? [])];
    if (values.length < curves.length) return [];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return [{ x, y: mean, low: Math.min(...values), high: Math.max(...values) }];
  });
}
