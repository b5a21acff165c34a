// The rows of the table: the largest value of the authors' code and the largest difference from it.

/** A rounding error of float32, relative to the largest term. Sums of a few terms have a few of them. */
const roundingTolerance = 2e-5;

const read = (value) => [...value.toFloat32Array()];

/** Compares a tensor with values of the authors' code. */
export const row = (name, ours, released, tolerance = roundingTolerance) => {
  const values = released.values.map(Math.fround);
  const scale = Math.max(...values.map(Math.abs), 1e-30);
  const numbers = read(ours);
  const difference = Math.max(...values.map((value, i) => Math.abs(value - numbers[i])));
  return { name, scale, difference, isEqual: numbers.length === values.length && difference <= tolerance * scale };
};

/** Compares tensors by name. Every tensor of the authors' code must be there. */
export function compareMany(name, ours, released, tolerance = roundingTolerance) {
  const rows = Object.entries(released).map(([key, value]) => {
    const own = ours.get(key);
    return own ? row(key, own, value) : { scale: 0, difference: Number.NaN };
  });
  const scale = Math.max(...rows.map((each) => each.scale));
  const difference = Math.max(...rows.map((each) => each.difference));
  return { name: `${name}, ${rows.length} tensors`, scale, difference, isEqual: difference <= tolerance * scale };
}

/** A row of things that are equal or not. */
export const compareCounts = (name, count, differing) => ({
  name: `${name}, ${count}`,
  scale: 1,
  difference: differing,
  isEqual: count > 0 && differing === 0,
});
