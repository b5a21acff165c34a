import { holmCorrection } from "../../evaluation/statistics.js";

/**
 * The alpha per text with which all certificates of a table hold together with confidence 1 -
 * alpha (union bound). Without it, the expected number of wrong certificates is at most texts
 * times alpha.
 */
export function computeAlphaPerText(alpha: number, texts: number): number {
  return alpha / texts;
}

/**
 * Selects the certificates of a table that hold together with confidence 1 - alpha, from the
 * p-value of each text (Holm). It never selects fewer than the union bound.
 */
export function selectCertified(pValues: readonly number[], alpha: number): boolean[] {
  return holmCorrection(pValues).map((adjusted) => adjusted <= alpha);
}
