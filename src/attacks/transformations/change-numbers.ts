import type { Transformation } from "../protocol.js";
import { replaceWords } from "./replace-words.js";

/** Candidates per number. */
const count = 3;

/**
 * Replaces an integer n by random integers from max(n - c, 1) to n + c - 1 with c = n + 1. 0, 2 and
 * 4 stay, because they are often words ("4 you").
 */
export const changeNumbers: Transformation = {
  name: "other numbers",
  kind: "swap",
  apply: (text, positions, rng) =>
    replaceWords(text, positions, (word) => {
      if (!/^\d{1,15}$/.test(word) || ["0", "2", "4"].includes(word)) return [];
      const value = Number(word);
      const [low, high] = [Math.max(value - (value + 1), 1), value + (value + 1)];
      return Array.from({ length: count }, () => String(low + rng.integer(high - low)));
    }),
};
