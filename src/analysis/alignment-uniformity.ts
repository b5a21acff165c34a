import { mean } from "../evaluation/statistics.js";

type FeatureVector = ArrayLike<number>;

/** A row scaled to length 1. */
export function normalizeL2(row: FeatureVector): Float64Array {
  const values = Float64Array.from(row);
  const norm = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? values : values.map((value) => value / norm);
}

export function squaredDistance(a: FeatureVector, b: FeatureVector): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return sum;
}

/** Mean squared distance of partners on the sphere (Wang and Isola 2020): 0 where each lies on its own. */
export function alignment(first: readonly FeatureVector[], second: readonly FeatureVector[]): number {
  return mean(first.map((row, i) => squaredDistance(row, second[i]!)));
}

/** Logarithm of the mean Gaussian potential of all pairs (Wang and Isola 2020): 0 where all lie in one place, the lower the more even. */
export function uniformity(rows: readonly FeatureVector[], t = 2): number {
  let sum = 0;
  for (let i = 0; i < rows.length; i++)
    for (let j = 0; j < i; j++) sum += Math.exp(-t * squaredDistance(rows[i]!, rows[j]!));
  return Math.log(sum / ((rows.length * (rows.length - 1)) / 2));
}

/** A measure inside each class, averaged over the classes that have two examples at least. */
export function averageWithinClasses(
  labels: readonly number[],
  measure: (members: readonly number[]) => number,
): number {
  const classes = [...new Set(labels)].map((label) => labels.flatMap((other, i) => (other === label ? [i] : [])));
  return mean(classes.filter((members) => members.length > 1).map(measure));
}
