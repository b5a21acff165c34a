import { type Interval, wilsonInterval } from "../../evaluation/statistics.js";
import type { WordEdits } from "./edits.js";

/** One row of a table of certified accuracy. */
export interface CertifiedAccuracy extends WordEdits {
  /** The fraction of texts whose prediction is correct and certified for these edits. */
  readonly accuracy: number;
  /** The 95% CI of the accuracy over texts. */
  readonly interval: Interval;
}

/**
 * Computes certified accuracy by the number of edits. `isCertified` tells whether the prediction
 * of a text is correct and stays the same.
 */
export function computeCertifiedAccuracy<Certificate>(
  certificates: readonly Certificate[],
  edits: readonly WordEdits[],
  isCertified: (certificate: Certificate, edits: WordEdits) => boolean,
): CertifiedAccuracy[] {
  return edits.map((each) => {
    const count = certificates.filter((certificate) => isCertified(certificate, each)).length;
    const { length } = certificates;
    return { ...each, accuracy: count / length, interval: wilsonInterval(count, length) };
  });
}
