/**
 * A word that differs between the original and the final text: replaced, inserted or deleted. A
 * merge of two words is a replacement and a deletion.
 */
export interface WordChange {
  /**
   * Index of the original word; of an inserted word, the index of the original word after it.
   */
  readonly position: number;
  /** The original word; empty for an insertion. */
  readonly from: string;
  /** The new word; empty for a deletion. */
  readonly to: string;
}

/** Lists the changes from the original text, in its order. */
export function listChanges(text: {
  readonly original: { readonly words: readonly string[] };
  readonly words: readonly string[];
  readonly slots: readonly { readonly origin: number }[];
}): WordChange[] {
  return listWordChanges(
    text.original.words,
    text.words,
    text.slots.map(({ origin }) => origin),
  );
}

/** Lists the changes from original words to final ones. `origins` has the index of the original word of each. */
export function listWordChanges(
  words: readonly string[],
  finalWords: readonly string[],
  origins: readonly number[],
): WordChange[] {
  const changes: WordChange[] = [];
  let next = 0;
  for (const [position, origin] of origins.entries()) {
    const to = finalWords[position]!;
    if (origin < 0) {
      changes.push({ position: next, from: "", to });
      continue;
    }
    for (; next < origin; next++) changes.push({ position: next, from: words[next]!, to: "" });
    if (words[origin] !== to) changes.push({ position: origin, from: words[origin]!, to });
    next = origin + 1;
  }
  for (; next < words.length; next++) changes.push({ position: next, from: words[next]!, to: "" });
  return changes;
}

/**
 * The index of the original word of each word; -1 for an inserted word. Equal words are aligned by
 * a longest common subsequence, and the words between them in their order.
 */
export function alignWords(original: readonly string[], words: readonly string[]): number[] {
  const width = words.length + 1;
  const lengths = new Uint32Array((original.length + 1) * width);
  for (let i = original.length - 1; i >= 0; i--)
    for (let j = words.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        original[i] === words[j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const origins: number[] = [];
  let [i, j] = [0, 0];
  while (j < words.length) {
    const isEqual = i < original.length && original[i] === words[j];
    const here = lengths[i * width + j]!;
    // Without a loss of equal words later, both words are skipped together: a replacement.
    const isReplaced = i < original.length && !isEqual && lengths[(i + 1) * width + j + 1]! === here;
    if (isEqual || isReplaced) {
      origins.push(i++);
      j++;
    } else if (i < original.length && lengths[(i + 1) * width + j]! === here) i++;
    else {
      origins.push(-1);
      j++;
    }
  }
  return origins;
}
