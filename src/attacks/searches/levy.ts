import type { Rng } from "../../base/rng.js";

const alpha = 1.5;
/** Mantegna's constants for alpha = 1.5. */
const scale = 0.696_574_502_557_698;
const [k, c] = [1.599_217_518_399_024, 2.737];
const maxDraws = 1000;

/**
 * Draws from a Lévy-stable distribution with Mantegna's algorithm (1994): a ratio of normal
 * variables, and a transformation that makes the center of the distribution accurate.
 */
function drawStable(rng: Rng): number {
  let value: number;
  // The transformation grows without bound for large negative values, as in LEAP's code.
  do value = (scale * rng.normal()) / Math.abs(rng.normal()) ** (1 / alpha);
  while (value < -10);
  return value * ((k - 1) * Math.exp(-value / c) + 1);
}

/** Draws until the number is within the range. */
export function drawLevy(low: number, high: number, rng: Rng): number {
  for (let draw = 0; draw < maxDraws; draw++) {
    const value = drawStable(rng);
    if (value >= low && value <= high) return value;
  }
  return low + rng.next() * (high - low);
}
