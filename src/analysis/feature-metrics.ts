import { z } from "zod";
import type { Rng } from "../base/rng.js";
import { bootstrapIntervals, mean } from "../evaluation/statistics.js";
import { intervalSchema } from "./flatness.js";
import { squaredDistance } from "./tsne.js";

/** Alignment and uniformity of features, as numbers or as their 95% CIs over the examples. */
const createSchema = <T extends z.ZodType>(value: T) =>
  z.object({
    /** Mean squared distance to the pre-trained model's features on the sphere. */
    alignment: value,
    /** How evenly the features cover the sphere. Lower: more evenly. */
    uniformity: value,
  });

export const featureMetricsSchema = createSchema(z.number());
export const featureIntervalsSchema = createSchema(intervalSchema);

type FeatureVector = ArrayLike<number>;
type Features = readonly FeatureVector[];

/** Scales a vector to length 1. */
export function normalizeL2(row: FeatureVector): Float64Array {
  const values = Float64Array.from(row);
  const norm = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? values : values.map((value) => value / norm);
}

/**
 * Mean squared distance of pairs on the sphere (Wang and Isola 2020). It is 0 if the vectors of
 * each pair are equal.
 */
export function computeAlignment(first: Features, second: Features): number {
  return mean(first.map((row, i) => squaredDistance(row, second[i]!)));
}

/** The temperature of the Gaussian potential. */
const temperature = 2;

/**
 * Logarithm of the mean Gaussian potential of all pairs (Wang and Isola 2020). It is 0 if all
 * vectors are equal.
 */
export function computeUniformity(rows: Features, t = temperature): number {
  let sum = 0;
  for (let i = 0; i < rows.length; i++)
    for (let j = 0; j < i; j++) sum += Math.exp(-t * squaredDistance(rows[i]!, rows[j]!));
  return Math.log(sum / ((rows.length * (rows.length - 1)) / 2));
}

/** Averages a measurement inside each class over the classes that have at least two examples. */
export function averageWithinClasses(
  labels: readonly number[],
  measure: (members: readonly number[]) => number,
): number {
  return mean(listClasses(labels).map(measure));
}

/** The examples of each class that has at least two. */
function listClasses(labels: readonly number[]): number[][] {
  return [...new Set(labels)]
    .map((label) => labels.flatMap((other, i) => (other === label ? [i] : [])))
    .filter((members) => members.length > 1);
}

/**
 * 95% CIs over the examples, overall and averaged within classes. An example that was drawn twice
 * is no pair with itself, which would count as a distance of 0.
 */
export function bootstrapFeatureMetrics(own: Features, theirs: Features, labels: readonly number[], rng: Rng) {
  const distances = own.map((row, i) => squaredDistance(row, theirs[i]!));
  const potentials = own.map((row, i) =>
    Float64Array.from({ length: i }, (_, j) => Math.exp(-temperature * squaredDistance(row, own[j]!))),
  );
  const all = [...own.keys()];
  const classes = listClasses(labels);
  const averageDistance = (members: readonly number[], draws: Float64Array): number => {
    let [sum, count] = [0, 0];
    for (const i of members) {
      sum += draws[i]! * distances[i]!;
      count += draws[i]!;
    }
    return sum / count;
  };
  const logPotential = (members: readonly number[], draws: Float64Array): number => {
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
  const [alignment, uniformity, alignmentInClass, uniformityInClass] = bootstrapIntervals(
    own.length,
    (draws) => [
      averageDistance(all, draws),
      logPotential(all, draws),
      average(classes.map((members) => averageDistance(members, draws))),
      average(classes.map((members) => logPotential(members, draws))),
    ],
    rng,
  );
  return {
    overall: { alignment: alignment!, uniformity: uniformity! },
    withinClass: { alignment: alignmentInClass!, uniformity: uniformityInClass! },
  };
}
