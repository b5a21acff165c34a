import type { Rng } from "../../base/rng.js";
import type { EditedText } from "../edited-text.js";
import type { ScoredText } from "../protocol.js";

/** Draws an index with a probability proportional to its weight; -1 if all weights are zero. */
export function drawIndex(weights: readonly number[], rng: Rng): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (!(total > 0)) return -1;
  let point = rng.next() * total;
  for (let i = 0; i < weights.length; i++) {
    point -= weights[i]!;
    if (point < 0 && weights[i]! > 0) return i;
  }
  return weights.findLastIndex((weight) => weight > 0);
}

/** Copies the words of another text at some positions. Both have the words of the same original. */
export function copyWords(target: EditedText, source: EditedText, positions: readonly number[]): EditedText {
  const words = new Map<number, string>();
  for (const position of positions) {
    const word = source.getWord(position);
    if (word !== target.getWord(position)) words.set(position, word);
  }
  return words.size === 0 ? target : target.replaceAll(words);
}

export function selectBest(members: readonly ScoredText[]): ScoredText {
  return members.reduce((best, next) => (next.value > best.value ? next : best));
}
