/** Logarithm of the gamma function for x > 0 (Lanczos approximation, 15 digits). */
export function logGamma(x: number): number {
  const terms = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
  ];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const shifted = x - 1;
  const sum = terms.reduce((total, term, i) => total + term / (shifted + i + 1), 0.9999999999998099);
  const base = shifted + 7.5;
  return 0.5 * Math.log(2 * Math.PI) + (shifted + 0.5) * Math.log(base) - base + Math.log(sum);
}

/**
 * The regularized incomplete beta function I_x(a, b), by its continued fraction (Lentz's method).
 */
export function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The fraction converges quickly below the mean. Above the mean, use the symmetry of the
  // function.
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  let c = 1;
  let d = 1 / nonZero(1 - ((a + b) * x) / (a + 1), tiny);
  let fraction = d;
  for (let m = 1; m <= 1000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let change = 1;
    for (const step of [even, odd]) {
      d = 1 / nonZero(1 + step * d, tiny);
      c = nonZero(1 + step / c, tiny);
      change = c * d;
      fraction *= change;
    }
    if (Math.abs(change - 1) < 1e-15) break;
  }
  return front * fraction;
}

function nonZero(value: number, tiny: number): number {
  return Math.abs(value) < tiny ? tiny : value;
}

/** P(T > t) for Student's t distribution. */
export function studentTail(t: number, degrees: number): number {
  const half = incompleteBeta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2;
  return t >= 0 ? half : 1 - half;
}

/** P(Z > z) for the standard normal distribution. */
export function normalTail(z: number): number {
  if (z < 0) return 1 - normalTail(-z);
  return chiSquareTail(z * z, 1) / 2;
}

/** P(X > x) for the chi-squared distribution. */
export function chiSquareTail(x: number, degrees: number): number {
  if (x <= 0) return 1;
  return upperGamma(degrees / 2, x / 2);
}

/** The regularized upper incomplete gamma function Q(a, x), by its series or continued fraction. */
function upperGamma(a: number, x: number): number {
  const front = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = 1; n < 1000 && term > sum * 1e-16; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return 1 - front * sum;
  }
  let b = x + 1 - a;
  let c = 1e300;
  let d = 1 / b;
  let fraction = d;
  for (let n = 1; n < 1000; n++) {
    const step = -n * (n - a);
    b += 2;
    d = 1 / nonZero(step * d + b, 1e-300);
    c = nonZero(b + step / c, 1e-300);
    fraction *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return front * fraction;
}

/** The p-quantile of the standard normal distribution. */
export function normalQuantile(p: number): number {
  return invertTail(normalTail, p);
}

/** The p-quantile of Student's t distribution. */
export function studentQuantile(p: number, degrees: number): number {
  return invertTail((t) => studentTail(t, degrees), p);
}

/**
 * Inverts a tail function by bisection. The wide range covers the heavy tails of one degree of
 * freedom.
 */
function invertTail(tail: (value: number) => number, p: number): number {
  if (p <= 0 || p >= 1) throw new RangeError(`expected a probability between 0 and 1 (exclusive), received ${p}`);
  let [low, high] = [-1e6, 1e6];
  while (high - low > 1e-13 * Math.max(1, Math.abs(low))) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (1 - tail(middle) < p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
