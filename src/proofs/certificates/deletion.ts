import { z } from "zod";
import { defineCertificate, listEditRows, maxEditsSchema, type TrainedCertificate } from "./define-certificate.js";
import type { TextFields } from "./scoring.js";
import { certifySmoothed, type NoiseKernel, selectCertified } from "./smoothing.js";
import { coversWordEdits, mapFieldWords, splitFields, type WordEdits } from "./words.js";

/** The noise of CERT-ED: each word of a text is deleted with probability `p`. */
export function createDeletionKernel(texts: TextFields, p: number, editableFields?: readonly number[]): NoiseKernel {
  checkProbability(p);
  const fields = splitFields(texts, editableFields);
  return (rng) => mapFieldWords(fields, (word) => (rng.next() < p ? null : word));
}

/**
 * The probability p_A that certifies a prediction if `removed` words of the text go and `added`
 * words come, at any places; a substitution is one of each. With probability p^removed the noise
 * deletes all words that go, and with p^added all words that come. What is left has one and the
 * same distribution Q, so
 *
 *     p_A(x)  <= p^removed Q(A) + 1 - p^removed,
 *     p_A(x') >= p^added Q(A),
 *
 * and p_A(x') > 1/2 follows from p_A(x) > 1 - p^removed + p^(removed - added) / 2.
 */
export function computeDeletionThreshold(p: number, removed: number, added: number): number {
  checkProbability(p);
  return 1 - p ** removed + p ** (removed - added) / 2;
}

/**
 * The probability that certifies s substitutions and t insertions or deletions: the largest over
 * all mixtures of insertions and deletions. For r substitutions it is 1/2 + Delta_r with the bound
 * Delta_r = 1 - p^r of the total variation. It also covers any r word edits.
 */
export function computeEditThreshold(p: number, { substitutions, insertions }: WordEdits): number {
  const mixtures = Array.from({ length: insertions + 1 }, (_, deleted) =>
    computeDeletionThreshold(p, substitutions + deleted, substitutions + insertions - deleted),
  );
  return Math.max(...mixtures);
}

/**
 * Delta_r = 1 - p^r: the total variation between the noised texts of two texts r word edits apart.
 */
export function computeDeletionShift(p: number, edits: number): number {
  checkProbability(p);
  return 1 - p ** edits;
}

function checkProbability(p: number): void {
  if (!(p > 0 && p < 1)) throw new RangeError(`expected a deletion probability between 0 and 1, received ${p}`);
}

const samplesSchema = z.int().min(1).max(1_000_000);

/** Draws per round. It does not change the results. */
const drawsPerRound = 50;
/** The confidence of all certificates of a table together. */
const familyAlpha = 0.05;

/** The certificate of a prediction that is smoothed by deleted words. */
export const deletion = defineCertificate({
  name: "deletion",
  summary: "smoothing by deleted words, with a confidence level (train with --method deletion-noise)",
  covers: coversWordEdits,
  trainedBy: "deletion-noise:p=0.9",
  options: z.strictObject({
    alpha: z.number().gt(0).lt(0.5).default(0.001).describe("probability that the certificate of one text is wrong"),
    maxSamples: samplesSchema.default(2000).describe("maximum noised texts per text"),
  }),
  recorded: {
    alpha: z.number().gt(0).lt(1),
    /** Texts that choose the class of a smoothed prediction. */
    classSamples: z.int().min(1).max(10_000).default(100),
    maxSamples: samplesSchema,
    maxEdits: maxEditsSchema,
    p: z.number().gt(0).lt(1),
  },
  line: {
    samples: z.int().min(0),
    successes: z.int().min(0),
    undecided: z.int().min(0),
    lowerBound: z.number(),
    pValues: z.array(z.number()),
  },
  create(options) {
    const { p, alpha, editableFields } = options;
    const rows = listEditRows(options.maxEdits);
    const thresholds = rows.map((each) => computeEditThreshold(p, each));
    return {
      rows,
      *certify({ texts }, rng) {
        const draw = createDeletionKernel(texts, p, editableFields);
        const found = yield* certifySmoothed(draw, thresholds, { ...options, batchSize: drawsPerRound }, rng);
        const { label: predicted, samples, successes, undecided, lowerBound, pValues } = found;
        return { predicted, samples, successes, undecided, lowerBound, pValues: [...pValues] };
      },
      isCertified: ({ lowerBound }, row) => lowerBound > thresholds[row]!,
      extendSummary: (summary, lines) => ({
        ...summary,
        certified: summary.certified.map((row, i) => {
          const selected = selectCertified(
            lines.map(({ pValues }) => pValues[i] ?? 1),
            familyAlpha,
          );
          const count = lines.filter(({ label, predicted }, k) => selected[k] && label === predicted).length;
          return { ...row, together: count / lines.length };
        }),
        confidence:
          `Each certificate holds with confidence ${100 * (1 - alpha)}%, so about ${(alpha * lines.length).toFixed(1)} of ` +
          `${lines.length} may be wrong. In the column "together", all hold at once with confidence 95%.`,
      }),
    };
  },
});

/** The certificate of a model that was trained on texts with deleted words. Only `certify` smooths it. */
export function createTrainedDeletion({ p }: { readonly p: number }): TrainedCertificate {
  return {
    definition: deletion,
    options: { p },
    attackSettings: { noise: "deletion", deletionRate: p },
  };
}
