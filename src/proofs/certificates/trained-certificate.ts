import type { HashVoteOptions } from "./hash-vote.js";
import { getTieMargin } from "./near-ties.js";

/**
 * The certificate that a model was trained for, with what is needed to classify as in training.
 * Its method records it in the config of the run.
 */
export type TrainedCertificate =
  | {
      readonly kind: "hash-vote";
      readonly groups: HashVoteOptions["groups"];
      readonly hashSeed: number;
      readonly hashVersion: number;
      /** The lead in log-probability that is a full vote; null: every group has one vote. */
      readonly clip: number | null;
    }
  | {
      readonly kind: "deletion";
      /** The probability that a word is deleted. */
      readonly p: number;
    };

/** How a model classifies by a vote, if it was trained for one; null for other models. */
export function createVoteOptions(
  certificate: TrainedCertificate | null,
  model: { readonly numLabels: number; readonly precision: string; readonly editableFields?: readonly number[] },
): HashVoteOptions | null {
  if (certificate?.kind !== "hash-vote") return null;
  const { groups, hashSeed, clip } = certificate;
  const { numLabels, precision, editableFields } = model;
  return { groups, hashSeed, clip, numLabels, editableFields, minMargin: getTieMargin(precision) };
}
