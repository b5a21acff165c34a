import { z } from "zod";
import type { Rng } from "../base/rng.js";
import { bootstrapIntervals, intervalSchema, mean } from "../evaluation/statistics.js";
import { squaredDistance } from "./tsne.js";

const createSchema = <T extends z.ZodType>(value: T) => {
  const metrics = z.object({
    /** Mean squared distance to the pre-trained model's features on the sphere. */
    alignment: value,
    /** The evenness of the features on the sphere. Lower: more even. */
    uniformity: value,
  });
  return z.object({
    overall: metrics,
    /** The same inside each class, averaged over the classes that have at least two examples. */
    withinClass: metrics,
  });
};

export const featureMetricsSchema = createSchema(z.number()).extend({
  intervals: createSchema(intervalSchema),
});

export function normalizeL2(row: ArrayLike<number>): Float64Array {
  const values = Float64Array.from(row);
  const norm = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? values : values.map((value) => value / norm);
}

const temperature = 2;

/**
 * Alignment and uniformity on the sphere (Wang and Isola 2020): the mean squared distance of pairs,
 * and the logarithm of the mean Gaussian potential of all pairs. Both are 0 for equal vectors.
 */
export function measureFeatures(
  own: readonly ArrayLike<number>[],
  theirs: readonly ArrayLike<number>[],
  labels: readonly number[],
  rng: Rng,
): z.output<typeof featureMetricsSchema> {
  const distances = own.map((row, i) => squaredDistance(row, theirs[i]!));
  const potentials = own.map((row, i) =>
    Float64Array.from({ length: i }, (_, j) => Math.exp(-temperature * squaredDistance(row, own[j]!))),
  );
  const all = [...own.keys()];
  const classes = [...new Set(labels)]
    .map((label) => all.filter((i) => labels[i] === label))
    .filter((members) => members.length > 1);
  const computeAlignment = (members: readonly number[], draws: Float64Array): number => {
    let [sum, count] = [0, 0];
    for (const i of members) {
      sum += draws[i]! * distances[i]!;
      count += draws[i]!;
    }
    return sum / count;
  };
  // An example that was drawn twice is no pair with itself, which would count as a distance of 0.
  const computeUniformity = (members: readonly number[], draws: Float64Array): number => {
    let [sum, count] = [0, 0];
    for (const [at, i] of members.entries()) {
      if (draws[i] === 0) continue;
      for (let k = 0; k < at; k++) {
        const weight = draws[i]! * draws[members[k]!]!;
        sum += weight * potentials[i]![members[k]!]!;
        count += weight;
      }
    }
    return Math.log(sum / count);
  };
  // A resample may lack a class, or have only one example of it.
  const average = (values: readonly number[]): number => mean(values.filter((value) => Number.isFinite(value)));
  const measure = (draws: Float64Array): number[] => [
    computeAlignment(all, draws),
    computeUniformity(all, draws),
    average(classes.map((members) => computeAlignment(members, draws))),
    average(classes.map((members) => computeUniformity(members, draws))),
  ];
  const group = <T>([alignment, uniformity, alignmentInClass, uniformityInClass]: readonly T[]) => ({
    overall: { alignment: alignment!, uniformity: uniformity! },
    withinClass: { alignment: alignmentInClass!, uniformity: uniformityInClass! },
  });
  return {
    ...group(measure(new Float64Array(own.length).fill(1))),
    intervals: group(bootstrapIntervals(own.length, measure, rng)),
  };
}
