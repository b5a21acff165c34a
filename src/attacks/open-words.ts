/** The open words of one text: which tokens they are, and the tokens that may stand there, the word's own first. */
export interface ModifiableWords {
  /** Indices into the text's token ids. */
  readonly tokenPositions: Int32Array;
  /** Indices into the text's words. */
  readonly wordIndices: Int32Array;
  readonly candidateIds: readonly Int32Array[];
}

/** Finds the words that have a substitute. */
export function modifiableWords(
  replacements: readonly (readonly string[])[],
  positions: ArrayLike<number>,
  wordToken: (word: string) => number,
): ModifiableWords {
  const words = replacements.flatMap((slots, i) => (slots.length > 1 ? [i] : []));
  return {
    tokenPositions: Int32Array.from(words, (i) => positions[i]!),
    wordIndices: Int32Array.from(words),
    candidateIds: words.map((i) => Int32Array.from(replacements[i]!, wordToken)),
  };
}

/**
 * The attack space of a batch on the host. Only open words take room, row by row, and their number is rounded up to a quarter of
 * the batch's tokens, so that few shapes occur; what is left over is read by nobody.
 */
export interface HostHull {
  /** Open words, rounded up, and slots a word. */
  readonly count: number;
  readonly width: number;
  readonly candidateIds: Int32Array; // [count, width]
  /** 1 where there is a substitute. */
  readonly candidateMask: Uint8Array; // [count, width]
  readonly positions: Int32Array; // [count, 1]
  /** For each token of the batch where its embedding lies: among the batch's own, or after them among the mixtures. */
  readonly index: Int32Array; // [rows * length]
}

export function packHull(texts: readonly ModifiableWords[], length: number, width: number): HostHull {
  const all = texts.length * length;
  const quarter = Math.ceil(all / 4);
  const used = texts.reduce((sum, text) => sum + text.candidateIds.length, 0);
  const count = Math.max(1, Math.ceil(used / quarter)) * quarter;
  const tokens = new Int32Array(count * width);
  const open = new Uint8Array(count * width);
  const places = new Int32Array(count);
  const index = Int32Array.from({ length: all }, (_, i) => i);
  let at = 0;
  for (const [row, text] of texts.entries()) {
    for (const [i, slots] of text.candidateIds.entries()) {
      places[at] = text.tokenPositions[i]!;
      index[row * length + places[at]!] = all + at;
      tokens.set(slots.subarray(0, width), at * width);
      open.fill(1, at * width, at * width + Math.min(slots.length, width));
      at++;
    }
  }
  // A word without any slot would have no shares.
  for (; at < count; at++) open[at * width] = 1;
  return { count, width, candidateIds: tokens, candidateMask: open, positions: places, index };
}
