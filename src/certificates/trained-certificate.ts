/**
 * The certificate that a model was trained for, with what is needed to classify as in training.
 * Its method records it in the config of the run.
 */
export type TrainedCertificate =
  | {
      readonly kind: "hash-vote";
      readonly groups: number;
      readonly hashSeed: number;
      readonly hashVersion: number;
    }
  | {
      readonly kind: "deletion";
      /** The probability that a word is deleted. */
      readonly p: number;
    };
