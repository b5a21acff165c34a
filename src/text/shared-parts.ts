/** A text with the tokens of its parts. Later parts are missing if their tokens are not needed. */
export interface EncodedParts {
  readonly text: string;
  readonly ids: number[];
  /** For each part, its first character and its first token. */
  readonly starts: number[];
  readonly firstIds: number[];
  /** The first character after the last part. */
  end: number;
}

/**
 * Copies the first parts of an encoded text that a new text shares. Where a text is split depends
 * only on a space and its neighbors. A part is shared if the texts are equal up to the character
 * after the next space.
 */
export function copySharedStart(encoded: EncodedParts | null, text: string): EncodedParts {
  if (encoded === null) return { text, ids: [], starts: [], firstIds: [], end: 0 };
  const { starts, firstIds, ids } = encoded;
  const length = countEqualStart(encoded.text, text);
  let last = starts.length - 1;
  while (last > 0 && starts[last]! + 1 >= length) last--;
  const count = Math.max(last, 0);
  return {
    text,
    ids: ids.slice(0, firstIds[count]),
    starts: starts.slice(0, count),
    firstIds: firstIds.slice(0, count),
    end: starts[count] ?? 0,
  };
}

/** Finds the first part of an encoded text from which on a new text has the same parts. */
export function findSharedEnd(encoded: EncodedParts, text: string): number {
  const { starts } = encoded;
  const first = encoded.text.length - countEqualEnd(encoded.text, text);
  let index = starts.length;
  while (index > 0 && starts[index - 1]! > first) index--;
  return index;
}

/** Appends the parts of `source` from this index on, until there are `limit` tokens. */
export function appendSharedEnd(target: EncodedParts, source: EncodedParts, index: number, limit: number): void {
  const shift = target.text.length - source.text.length;
  const { ids, starts, firstIds } = target;
  for (let part = index; part < source.starts.length && ids.length < limit; part++) {
    starts.push(source.starts[part]! + shift);
    firstIds.push(ids.length);
    const lastId = source.firstIds[part + 1] ?? source.ids.length;
    for (let position = source.firstIds[part]!; position < lastId; position++) ids.push(source.ids[position]!);
    target.end = (source.starts[part + 1] ?? source.end) + shift;
  }
}

/** Characters that are compared at once, which is faster than one after the other. */
const BLOCK = 64;

function countEqualStart(first: string, second: string): number {
  const length = Math.min(first.length, second.length);
  let count = 0;
  while (count + BLOCK <= length && first.slice(count, count + BLOCK) === second.slice(count, count + BLOCK))
    count += BLOCK;
  while (count < length && first.charCodeAt(count) === second.charCodeAt(count)) count++;
  return count;
}

function countEqualEnd(first: string, second: string): number {
  const length = Math.min(first.length, second.length);
  const shift = second.length - first.length;
  let start = first.length;
  const end = first.length - length;
  while (
    start - BLOCK >= end &&
    first.slice(start - BLOCK, start) === second.slice(start - BLOCK + shift, start + shift)
  )
    start -= BLOCK;
  while (start > end && first.charCodeAt(start - 1) === second.charCodeAt(start - 1 + shift)) start--;
  return first.length - start;
}
