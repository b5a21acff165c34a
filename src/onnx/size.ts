/** A number that depends on the batch: constant + batch · batch size + length · sequence length. */
export interface Size {
  readonly constant: number;
  readonly batch: number;
  readonly length: number;
}

/** A number in the arguments of an operator, the same in all batches or not. */
export type SizeOrNumber = Size | number;

export function isSize(value: unknown): value is Size {
  return typeof value === "object" && value !== null && "constant" in value && "batch" in value;
}

export function addSizes(first: SizeOrNumber, second: SizeOrNumber): SizeOrNumber {
  if (!isSize(first) && !isSize(second)) return first + second;
  const toSize = (value: SizeOrNumber): Size => (isSize(value) ? value : { constant: value, batch: 0, length: 0 });
  const [a, b] = [toSize(first), toSize(second)];
  return { constant: a.constant + b.constant, batch: a.batch + b.batch, length: a.length + b.length };
}

export interface BatchShape {
  readonly batch: number;
  readonly length: number;
}

/**
 * Finds the linear function that has the given values at the given batches. The first batch differs
 * from the second one in the batch size, and from the third one in the length; the others verify
 * the function. Null if it is not linear.
 */
export function fitSize(values: readonly number[], shapes: readonly BatchShape[]): SizeOrNumber | null {
  const [first, second, third] = values as [number, number, number];
  if (values.every((value) => Object.is(value, first))) return first;
  const [base, wider, longer] = shapes as [BatchShape, BatchShape, BatchShape];
  const batch = (second - first) / (wider.batch - base.batch);
  const length = (third - first) / (longer.length - base.length);
  const size = { constant: first - batch * base.batch - length * base.length, batch, length };
  const isLinear = values.every(
    (value, i) => value === size.constant + batch * shapes[i]!.batch + length * shapes[i]!.length,
  );
  return isLinear && [size.constant, batch, length].every(Number.isInteger) ? size : null;
}
