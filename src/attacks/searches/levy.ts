import type { Rng } from "../../tensor/random.js";

const alpha = 1.5;
/** Mantegna's scale for alpha = 1.5. */
const scale = 0.696_574_502_557_698;
const maxDraws = 1000;

/** Draws from a Lévy-stable distribution until the number is within the range (Mantegna 1994). */
export function drawLevy(low: number, high: number, rng: Rng): number {
  for (let draw = 0; draw < maxDraws; draw++) {
    const value = (scale * rng.normal()) / Math.abs(rng.normal()) ** (1 / alpha);
    if (value >= low && value <= high) return value;
  }
  return low + rng.next() * (high - low);
}
