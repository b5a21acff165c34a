import { z } from "zod";
import { UserError } from "../../base/errors.js";
import { countSchema, orNull } from "../../base/validate.js";
import { listWindowSizes, listWindows } from "../../text/windows.js";
import type { CertifiedModel } from "./certified-model.js";
import { computeCertifiedAccuracy, defineCertificate } from "./define-certificate.js";
import { type Guard, summarizeGuard } from "./guard.js";
import type { LabelScores, ScoringProcess } from "./scoring.js";

/** The score of a text by its windows, and the window that proves it. */
export interface WindowScore {
  /** The largest probability of the positive label in any window; 0 without a window. */
  readonly score: number;
  /** The first window with this score. Any text around it has at least this score. */
  readonly window: string | null;
  readonly windows: number;
}

/**
 * Scores a text by its windows: score(x) = max over windows w of x of P[positive | w]. Windows of
 * x are windows of every text y that contains x, so score(y) >= score(x): text that is appended or
 * prepended, however long, cannot lower the score. The proof is the window.
 */
export function* scoreWindows(
  text: string,
  sizes: readonly number[],
  positiveLabel: number,
): ScoringProcess<WindowScore> {
  const windows = listWindows(text, sizes);
  const rows = yield windows.map((window) => [window]);
  let best: WindowScore = { score: 0, window: null, windows: windows.length };
  for (const [i, row] of rows.entries()) {
    const score = row[positiveLabel]!;
    // 0 is the score of a text without windows, so scores below it would break the order.
    if (!(score >= 0 && score <= 1)) throw new RangeError(`expected a probability, received ${score}`);
    if (best.window === null || score > best.score) best = { ...best, score, window: windows[i]! };
  }
  return best;
}

const name = "windows";

/** The certificate of a guard that scores windows. The window with the largest score is the proof. */
export const windows = defineCertificate({
  name,
  summary:
    "text before or after, separated by white space, cannot hide a text from a guard (any model with two labels)",
  covers:
    "any amount of text before and after a text of the positive label, separated from it by white space (certified " +
    "recall); text that is glued to its first or last word can lower the score",
  options: z.strictObject({
    size: countSchema.max(1000).default(32).describe("maximum words per window"),
    positiveLabel: orNull(z.string(), "as calibrated, else the second").describe("label that the guard must find"),
  }),
  recorded: {
    size: z.int().min(1).max(1000),
    positiveLabel: z.int().min(0).max(1),
    threshold: z.number(),
  },
  line: {
    score: z.number(),
    /** The window that proves the score. */
    window: z.string().nullable(),
    windows: z.int().min(0),
  },
  async resolve({ size, positiveLabel: given }, { numFields, findGuard }) {
    if (numFields !== 1) throw new UserError("--kind windows: expected single texts, received pairs of texts.");
    const { positiveLabel, threshold } = await findGuard({ windows: size, positiveLabel: given });
    return { size, positiveLabel, threshold };
  },
  create({ size, positiveLabel, threshold, minMargin }) {
    const sizes = listWindowSizes(size);
    const rows = [{ substitutions: 0, insertions: 0, name: "text before and after" }];
    const isCertified = ({ score }: { readonly score: number }): boolean => score > threshold + minMargin;
    return {
      rows,
      *certify({ texts }) {
        const found = yield* scoreWindows(texts[0]!, sizes, positiveLabel);
        return { predicted: found.score > threshold ? positiveLabel : 1 - positiveLabel, ...found };
      },
      isCertified,
      extendSummary: (summary, lines) => ({
        ...summary,
        // Of the texts of the positive label: a guard is evaded, not triggered.
        certified: computeCertifiedAccuracy(
          lines.filter(({ label }) => label === positiveLabel),
          rows,
          isCertified,
        ),
        guard: summarizeGuard(
          lines.map(({ score, label }) => ({ score, isPositive: label === positiveLabel })),
          threshold,
        ),
      }),
    };
  },
});

/**
 * The guard as a model. With windows, the score of a text is that of its worst window: text before
 * or after a text only adds windows, so it cannot lower the score.
 */
export function createGuardModel({
  windows: size,
  positiveLabel,
  threshold,
  minMargin = 0,
}: Omit<Guard, "fpr"> & { readonly minMargin?: number }): CertifiedModel {
  const sizes = size === null ? null : listWindowSizes(size);
  const getScore = (rows: readonly LabelScores[]): number =>
    rows.reduce((most, row) => Math.max(most, row[positiveLabel]!), 0);
  const toRow = (score: number): number[] => (positiveLabel === 0 ? [score, 1 - score] : [1 - score, score]);
  return {
    identity: { kind: sizes === null ? "threshold" : name, sizes, positiveLabel, threshold },
    split(texts) {
      if (sizes === null) return [texts];
      if (texts.length !== 1) throw new UserError("windows: expected single texts, received a pair of texts.");
      return listWindows(texts[0]!, sizes).map((window) => [window]);
    },
    answer(rows) {
      const score = getScore(rows);
      const probabilities = toRow(score);
      if (sizes === null) return { probabilities };
      // Without a limit: null. Only texts that are flagged have a certificate.
      return { probabilities, certified: { kind: name, edits: score > threshold + minMargin ? null : 0 } };
    },
    score: (rows) => toRow(moveThreshold(getScore(rows), threshold)),
  };
}

/** Moves the threshold of a score to 1/2, so that a search succeeds if a text is not flagged. */
function moveThreshold(score: number, threshold: number): number {
  return score > threshold ? 0.5 + (0.5 * (score - threshold)) / (1 - threshold) : (0.5 * score) / threshold;
}
