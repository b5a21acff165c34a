import type { Score } from "../../models/inference/score.js";
import type { EditedText } from "../edited-text.js";

/** The aim of an attack on a text. */
export interface Goal {
  readonly name: string;
  /** True if the search goes on after the goal is reached, until nothing improves the value. */
  readonly isMaximized?: boolean;
  /** True if a text that reaches the goal has the same prediction as the original one. */
  readonly keepsPrediction?: boolean;
  /** Higher is closer to the goal. `original` is the score of the original text. */
  computeValue(score: Score, label: number, text: EditedText, original: Score): number;
  isReached(score: Score, label: number, text: EditedText): boolean;
  /** Returns true if examples of a class are attacked. Default: all are. */
  attacksLabel?(label: number): boolean;
}
