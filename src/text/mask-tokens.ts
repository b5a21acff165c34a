import type { Rng } from "../base/rng.js";
import type { Tokenizer } from "./encoding.js";
import type { PackedSequence } from "./pack-sequences.js";

/** Options of masking tokens. */
export interface MaskingOptions {
  /** The fraction of the tokens that the model predicts. */
  readonly probability: number;
  /** The most tokens of a sequence besides the special ones around them. */
  readonly maxTokens: number;
  /** The ID of the mask token. */
  readonly maskId: number;
}

/** The label of a token that the loss ignores. */
const ignoredLabel = -100;

/** A sequence with masks, and the tokens to predict. */
export interface MaskedTokens {
  readonly ids: Int32Array;
  /** The position of each prediction in the sequence. */
  readonly positions: Int32Array;
  /** The original token at each position. The loss ignores -100. */
  readonly labels: Int32Array;
}

/** The number of predictions per sequence of at most this many tokens. */
function countPredictions(probability: number, tokens: number): number {
  return Math.max(1, Math.round(probability * tokens));
}

/**
 * Selects tokens to predict as BERT's code does: a fixed fraction of each sequence, or whole words
 * up to this number of tokens. Of these, 80% become the mask, 10% a random token, and 10% stay.
 * Special tokens are never selected. Every sequence has the same number of labels, so the shapes
 * of all batches are equal: a sequence with fewer predictions repeats one with an ignored label.
 */
export function maskTokens(
  { ids, wordStarts }: PackedSequence,
  { special, vocabSize }: Pick<Tokenizer, "special" | "vocabSize">,
  { probability, maxTokens, maskId }: MaskingOptions,
  rng: Rng,
): MaskedTokens {
  const isSpecial = (id: number): boolean => id === special.clsId || id === special.sepId || id === special.padId;
  const words: number[][] = [];
  let count = 0;
  for (const [position, id] of ids.entries()) {
    if (isSpecial(id)) continue;
    count++;
    const previous = words.at(-1);
    const continues = wordStarts?.[position] === 0 && previous?.at(-1) === position - 1;
    if (continues) previous!.push(position);
    else words.push([position]);
  }
  const wanted = countPredictions(probability, count);
  const selected: number[] = [];
  for (const word of rng.shuffle(words)) {
    if (selected.length === wanted) break;
    if (selected.length + word.length <= wanted) selected.push(...word);
  }
  // If every word is longer than the number of predictions, a part of one is predicted.
  if (selected.length === 0) selected.push(...(words[0] ?? []).slice(0, wanted));
  selected.sort((a, b) => a - b);
  const masked = ids.slice();
  for (const position of selected) {
    const choice = rng.next();
    if (choice < 0.8) masked[position] = maskId;
    else if (choice < 0.9) masked[position] = rng.integer(vocabSize);
  }
  const width = countPredictions(probability, maxTokens);
  const pad = (index: number): boolean => index >= selected.length;
  const positions = Int32Array.from({ length: width }, (_, i) => selected[pad(i) ? 0 : i] ?? 0);
  const labels = Int32Array.from({ length: width }, (_, i) => (pad(i) ? ignoredLabel : ids[selected[i]!]!));
  return { ids: masked, positions, labels };
}
