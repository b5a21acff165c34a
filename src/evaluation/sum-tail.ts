/** The distribution of an integer. */
export interface IntegerDistribution {
  readonly values: readonly number[];
  readonly probabilities: readonly number[];
}

/** Errors are below e^-14, a millionth of the tail. */
const accuracy = 14;
const maxNewtonSteps = 60;

/**
 * The probability that the sum of `draws` independent integers is at most `limit`, by the inversion
 * of their generating function M: with |z| = r < 1, it is the mean of M(z)^draws z^-limit / (1 - z)
 * over a circle. The sum over points of the circle is exact up to terms that shrink with their number.
 * The circle through the saddle point keeps small probabilities from canceling.
 */
export function computeSumTail(distribution: IntegerDistribution, draws: number, limit: number): number {
  const { values, probabilities } = distribution;
  const [low, high] = [draws * Math.min(...values), draws * Math.max(...values)];
  if (limit < low) return 0;
  if (limit >= high) return 1;
  if (limit === low) return probabilities[values.indexOf(Math.min(...values))]! ** draws;
  const mean = values.reduce((sum, value, i) => sum + value * probabilities[i]!, 0);
  if (limit >= draws * mean) {
    const mirrored = { values: values.map((value) => -value), probabilities };
    return 1 - computeSumTail(mirrored, draws, -limit - 1);
  }
  const theta = findSaddlePoint(distribution, limit / draws);
  const chernoff = draws * cumulant(distribution, theta) - theta * limit;
  const second = draws * cumulant(distribution, 2 * theta) - 2 * theta * limit;
  const size = Math.max(-chernoff, second - chernoff) + accuracy;
  const points = Math.ceil(size / -theta) + 2;
  let sum = 0;
  for (let j = 0; 2 * j <= points; j++) {
    const term = evaluateTerm(distribution, draws, limit, theta, (2 * Math.PI * j) / points);
    // Points above and below the real axis are conjugate.
    sum += j === 0 || 2 * j === points ? term : 2 * term;
  }
  return Math.min(1, Math.max(0, sum / points));
}

/** log E[exp(theta X)]. */
function cumulant({ values, probabilities }: IntegerDistribution, theta: number): number {
  return Math.log(values.reduce((sum, value, i) => sum + probabilities[i]! * Math.exp(theta * value), 0));
}

/** The theta < 0 at which the tilted mean is `target`; not closer to 0 than the pole of 1 / (1 - z) allows. */
function findSaddlePoint({ values, probabilities }: IntegerDistribution, target: number): number {
  let theta = 0;
  for (let step = 0; step < maxNewtonSteps; step++) {
    let [mass, first, second] = [0, 0, 0];
    for (const [i, value] of values.entries()) {
      const weight = probabilities[i]! * Math.exp(theta * value);
      mass += weight;
      first += weight * value;
      second += weight * value * value;
    }
    const mean = first / mass;
    const change = (target - mean) / (second / mass - mean * mean);
    theta += Math.max(-1, Math.min(1, change));
    if (Math.abs(change) < 1e-9) break;
  }
  return Math.min(theta, -0.01);
}

/** The real part of M(z)^draws z^-limit / (1 - z) at z = exp(theta + i angle). */
function evaluateTerm(
  { values, probabilities }: IntegerDistribution,
  draws: number,
  limit: number,
  theta: number,
  angle: number,
): number {
  let [real, imaginary] = [0, 0];
  for (const [i, value] of values.entries()) {
    const weight = probabilities[i]! * Math.exp(theta * value);
    real += weight * Math.cos(angle * value);
    imaginary += weight * Math.sin(angle * value);
  }
  const logarithm = (draws / 2) * Math.log(real * real + imaginary * imaginary) - theta * limit;
  const phase = draws * Math.atan2(imaginary, real) - angle * limit;
  const size = Math.exp(logarithm);
  const [below, side] = [1 - Math.exp(theta) * Math.cos(angle), -Math.exp(theta) * Math.sin(angle)];
  // (cos + i sin) / (below + i side)
  return (size * (Math.cos(phase) * below + Math.sin(phase) * side)) / (below * below + side * side);
}
