// The rows of the table: the largest value of the authors' code and the largest difference from it.

const read = (value) => [...value.toFloat32Array()];
const getLargest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** The largest difference of two lists. NaN if one of them is longer. */
export const getDistance = (first, second) =>
  first.length === second.length ? getLargest(first.map((value, i) => value - second[i])) : Number.NaN;

/**
 * A row of numbers: its values in Temper and in the authors' code. `size` is the size of the terms that are rounded, if
 * they are larger than the values. `digits` is how many digits the authors' values are written with, if they are short.
 */
export function compareNumbers(name, numbers, expected, { size, digits } = {}) {
  const scale = Math.max(getLargest(expected), 1e-30);
  const written = digits ? 0.5 * 10 ** (Math.floor(Math.log10(scale)) + 1 - digits) : 0;
  return { name, numbers, scale, size: size ?? scale, written, difference: getDistance(numbers, expected) };
}

/** Compares a tensor with values of the authors' code. */
export const row = (name, ours, released) => compareNumbers(name, read(ours), released.values.map(Math.fround));

/** Compares tensors by name. Every tensor of the authors' code must be there. */
export function compareMany(name, ours, released, digits) {
  const all = Object.entries(released);
  const numbers = all.flatMap(([key]) => (ours.has(key) ? read(ours.get(key)) : []));
  const expected = all.flatMap(([, { values }]) => values.map(Math.fround));
  return compareNumbers(`${name}, ${all.length} tensors`, numbers, expected, { digits });
}

/** A row of things that are equal or not. */
export const compareCounts = (name, count, differing) => ({
  name: `${name}, ${count}`,
  numbers: [],
  scale: 1,
  size: 0,
  written: 0,
  difference: count > 0 ? differing : Number.NaN,
});

/** The roundings that follow one another in a value, and the relative error of one in float32. */
const [terms, unitRoundoff] = [16, 2 ** -24];

/**
 * Judges rows by what rounding explains: both sides are rounded, and computations that magnify errors differ between runs
 * with other last bits. `repeats` has the same rows of such runs.
 */
export const judgeRows = (rows, repeats) =>
  rows.map((each, i) => {
    const spread = getLargest(repeats.map((other) => getDistance(other[i].numbers, each.numbers)));
    return { ...each, isEqual: each.difference <= 2 * terms * unitRoundoff * each.size + 8 * spread + each.written };
  });
