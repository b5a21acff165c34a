import type { AttackOutcome } from "../attacks/result.js";

/** The effect of an attack on a text, in words. */
export const outcomeTitles: Readonly<Record<AttackOutcome, string>> = {
  success: "fooled",
  failed: "robust",
  skipped: "misclassified before the attack",
};

/** True if a model classified each example correctly, by the example's ID. */
export type ExampleOutcomes = ReadonlyMap<string, boolean>;

/**
 * The outcomes of one model: for every seed, the outcomes by metric ("clean", an attack's name, …).
 */
export interface ModelOutcomes {
  readonly name: string;
  readonly outcomesPerSeed: readonly ReadonlyMap<string, ExampleOutcomes>[];
  /** The label whose texts were attacked; null or undefined if they are of every label. */
  readonly attackedLabel?: string | null;
  /** The seeds, if they are known. */
  readonly seeds?: readonly number[];
  /** The reason why the model of a seed is degenerate; null if it is not. */
  readonly degeneracies?: readonly (string | null)[];
}
