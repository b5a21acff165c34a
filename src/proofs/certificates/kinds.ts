import { z } from "zod";
import { Rng } from "../../base/rng.js";
import { type Interval, wilsonInterval } from "../../evaluation/statistics.js";
import { canonicalize } from "../../text/canonicalize.js";
import { type CertifiedAccuracy, computeCertifiedAccuracy } from "./certified-accuracy.js";
import { computeEditThreshold, createDeletionKernel } from "./deletion.js";
import type { WordEdits } from "./edits.js";
import { selectCertified } from "./family-confidence.js";
import { certifyGroupRows, scoreDeletions } from "./group-deletions.js";
import { type GuardSummary, summarizeGuard } from "./guard.js";
import { certifyVotes, countVoters, coversEdits, listVoters } from "./hash-vote.js";
import { computeMaskShift, countKeptWords, createMaskKernel } from "./mask.js";
import { isUndecided } from "./near-ties.js";
import { findLargestScore, type ScoringProcess, type TextFields } from "./scoring.js";
import { certifySmoothed, type NoiseKernel } from "./smoothing.js";
import { createSynonymNoise, synonymCoverage } from "./synonyms.js";
import { listWindowSizes, scoreWindows } from "./windows.js";
import { countWords, splitFields } from "./words.js";

// A journal may come from elsewhere, so no number of it decides how long a verification takes, or how much memory.
const shared = {
  numLabels: z.int().min(2).max(10_000),
  /** The fields that an attacker may edit. */
  editableFields: z.array(z.int().min(0)),
  /** Labels that win by less are undecided. */
  minMargin: z.number().min(0),
};
const edits = { maxEdits: z.int().min(1).max(100) };

const hashVoteSchema = z.strictObject({
  kind: z.literal("hash-vote"),
  ...shared,
  ...edits,
  groups: z.union([z.int().min(2).max(1000), z.literal("words")]),
  hashSeed: z.int().min(0),
  hashVersion: z.int(),
  clip: z.number().positive().nullable().default(null),
  /** Whether what each deleted word changes was computed, instead of assumed. */
  enumeratesDeletions: z.boolean().default(false),
});
const smoothing = {
  ...shared,
  alpha: z.number().gt(0).lt(1),
  classSamples: z.int().min(1).max(10_000),
  maxSamples: z.int().min(1).max(1_000_000),
};
const smoothingSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("deletion"), ...smoothing, ...edits, p: z.number().gt(0).lt(1) }),
  /** The fraction of words that the mask token replaces. */
  z.strictObject({
    kind: z.literal("mask"),
    ...smoothing,
    ...edits,
    rate: z.number().gt(0).lt(1),
    mask: z.string(),
  }),
  z.strictObject({ kind: z.literal("synonym"), ...smoothing, clusters: z.array(z.array(z.string()).min(2)) }),
]);
type SmoothingOptions = z.output<typeof smoothingSchema>;
const canonicalSchema = z.strictObject({ kind: z.literal("canonical"), ...shared });
const windowsSchema = z.strictObject({
  kind: z.literal("windows"),
  ...shared,
  size: z.int().min(1).max(1000),
  positiveLabel: z.int().min(0).max(1),
  /** A text is flagged if its score is above. */
  threshold: z.number(),
});

/** A certificate with everything that decides it. */
export const certificateOptionsSchema = z.discriminatedUnion("kind", [
  hashVoteSchema,
  smoothingSchema,
  canonicalSchema,
  windowsSchema,
]);
export type CertificateOptions = z.output<typeof certificateOptionsSchema>;

/** The names of the certificates. */
export const certificateNames = ["hash-vote", "deletion", "mask", "synonym", "canonical", "windows"] as const;
export type CertificateName = CertificateOptions["kind"];

/** A text with its true label. */
export interface LabeledText {
  readonly id: string;
  readonly label: number;
  readonly texts: TextFields;
}

const lineShape = {
  id: z.string(),
  label: z.int().min(0),
  texts: z.array(z.string()).min(1).max(2),
  predicted: z.int().min(0),
};
const lineSchema = z.object(lineShape);
/** One line of a journal: a text, the prediction of the certified model, and its certificate. */
export type CertificateLine = z.output<typeof lineSchema>;

/** A row of a table of certificates. */
export interface CertifiedRow extends CertifiedAccuracy {
  /**
   * For statistical certificates: the accuracy by the certificates that hold all together with 95%
   * confidence.
   */
  readonly together?: number;
}

/** What the certificates of all texts say together. */
export interface CertificateSummary {
  readonly kind: CertificateName;
  readonly examples: number;
  /** The accuracy of the certified model without edits. */
  readonly clean: number;
  readonly cleanInterval: Interval;
  readonly certified: readonly CertifiedRow[];
  /** Which edits the certificates are about. */
  readonly covers: string;
  /** The confidence of a statistical certificate; null for a proof. */
  readonly confidence: string | null;
  /** For windows: what the guard does with texts of the positive and the other label. */
  readonly guard?: GuardSummary;
}

/** One kind of certificate with its options. */
export interface CertificateKind<Line extends CertificateLine = CertificateLine> {
  readonly lineSchema: z.ZodType<Line>;
  /** Certifies one text. `rng` is the stream of this text. */
  certify(text: LabeledText, rng: Rng): ScoringProcess<Line>;
  summarize(lines: readonly Line[]): CertificateSummary;
  /**
   * Why a line differs from the one that was computed again; null if it does not. With near ties,
   * it may differ by as many votes.
   */
  findDifference(recorded: Line, computed: Line): string | null;
}

/** Creates a certificate from its options. */
export function createCertificate(options: CertificateOptions): CertificateKind {
  // Each kind reads only the lines that it has written.
  const create = (): unknown => {
    if (options.kind === "hash-vote") return createHashVote(options);
    if (options.kind === "canonical") return createCanonical(options);
    return options.kind === "windows" ? createWindows(options) : createSmoothing(options);
  };
  return create() as CertificateKind;
}

/** The rows of a table: so many substitutions, then so many insertions or deletions. */
function listRows(maxEdits: number): WordEdits[] {
  const counts = Array.from({ length: maxEdits }, (_, i) => i + 1);
  return [
    ...counts.map((substitutions) => ({ substitutions, insertions: 0 })),
    ...counts.map((insertions) => ({ substitutions: 0, insertions })),
  ];
}

function countCorrect(lines: readonly CertificateLine[]): number {
  return lines.filter(({ label, predicted }) => label === predicted).length;
}

function summarizeClean(
  lines: readonly CertificateLine[],
): Pick<CertificateSummary, "examples" | "clean" | "cleanInterval"> {
  const [correct, { length }] = [countCorrect(lines), lines];
  return { examples: length, clean: correct / length, cleanInterval: wilsonInterval(correct, length) };
}

const wordEdits = "any substitutions, insertions and deletions of words, up to the number in the row";

const voteLineSchema = z.object({
  ...lineShape,
  /** The votes, or the sums of clipped leads, of each label. */
  votes: z.array(z.number()),
  undecided: z.int().min(0),
  changeableGroups: z.int(),
  /** With enumerated deletions: the lead that is left in the worst case, for each row of the table. */
  margins: z.array(z.number()).optional(),
});

function createHashVote(options: z.output<typeof hashVoteSchema>): CertificateKind<z.output<typeof voteLineSchema>> {
  const rows = listRows(options.maxEdits);
  const isNear = (first: readonly number[], second: readonly number[], limit: number): boolean =>
    first.length === second.length && first.every((each, i) => Math.abs(each - second[i]!) <= limit);
  return {
    lineSchema: voteLineSchema,
    *certify({ id, label, texts }) {
      // Without a word, its own group is empty, so these deletions cost nothing.
      const scored =
        options.enumeratesDeletions || options.groups === "words"
          ? yield* scoreDeletions(texts, options)
          : { rows: yield listVoters(texts, options), without: null };
      const { label: predicted, totals, undecided, changeableGroups } = certifyVotes(scored.rows, options);
      const { without } = scored;
      return {
        ...{ id, label, texts: [...texts], predicted, votes: [...totals], undecided, changeableGroups },
        ...(without && { margins: [...certifyGroupRows({ rows: scored.rows, without }, options, rows).margins] }),
      };
    },
    summarize: (lines) => ({
      kind: options.kind,
      ...summarizeClean(lines),
      certified: rows.map((each, row) => {
        const isCertified = ({ label, predicted, margins, ...line }: (typeof lines)[number]): boolean =>
          label === predicted && (margins ? margins[row]! > 0 : coversEdits(line, each));
        return computeCertifiedAccuracy(lines, [each], isCertified)[0]!;
      }),
      covers: wordEdits,
      confidence: null,
    }),
    findDifference(recorded, computed) {
      const limit = computed.undecided;
      const voters = countVoters(options.groups, listVoters(computed.texts, options).length);
      const tolerance = options.clip === null ? 0 : scoreTolerance * voters;
      if (!isNear(recorded.votes, computed.votes, limit + tolerance))
        return describeDifference("votes", recorded.votes, computed.votes);
      if (!isNear(recorded.margins ?? [], computed.margins ?? [], 2 * limit + tolerance))
        return describeDifference("margins", recorded.margins, computed.margins);
      if (recorded.changeableGroups > computed.changeableGroups + 2 * limit + Math.ceil(tolerance))
        return describeDifference("changeableGroups", recorded.changeableGroups, computed.changeableGroups);
      return limit + tolerance === 0 ? compareFields(recorded, computed, ["predicted", "changeableGroups"]) : null;
    },
  };
}

const smoothedLineSchema = z.object({
  ...lineShape,
  samples: z.int().min(0),
  successes: z.int().min(0),
  undecided: z.int().min(0),
  lowerBound: z.number(),
  pValues: z.array(z.number()),
});

/** The confidence of all certificates of a table together. */
const familyAlpha = 0.05;
/** Draws per round. It does not change the results. */
const drawsPerRound = 50;

/** A noise with the edits that it certifies. */
interface Noise {
  readonly rows: readonly WordEdits[];
  readonly covers: string;
  draw(texts: TextFields): NoiseKernel;
  /** For each row, the probability of the label that certifies it. */
  listThresholds(texts: TextFields): readonly number[];
}

function createNoise(options: SmoothingOptions): Noise {
  const { editableFields } = options;
  if (options.kind === "synonym")
    return {
      rows: [{ substitutions: 0, insertions: 0 }],
      covers: synonymCoverage,
      draw: createSynonymNoise(options.clusters, editableFields),
      listThresholds: () => [0.5],
    };
  const rows = listRows(options.maxEdits);
  if (options.kind === "deletion") {
    const thresholds = rows.map((each) => computeEditThreshold(options.p, each));
    return {
      rows,
      covers: wordEdits,
      draw: (texts) => createDeletionKernel(texts, options.p, editableFields),
      listThresholds: () => thresholds,
    };
  }
  const substitutions = rows.filter(({ insertions }) => insertions === 0);
  return {
    rows: substitutions,
    covers:
      "substitutions of words by single words, up to the number in the row; insertions and deletions are not covered",
    draw: (texts) => createMaskKernel(texts, options),
    listThresholds(texts) {
      const length = countWords(splitFields(texts, editableFields));
      const kept = countKeptWords(length, options.rate);
      return substitutions.map((each) => 0.5 + computeMaskShift(length, kept, each.substitutions));
    },
  };
}

function createSmoothing(options: SmoothingOptions): CertificateKind<z.output<typeof smoothedLineSchema>> {
  const { rows, covers, draw, listThresholds } = createNoise(options);
  return {
    lineSchema: smoothedLineSchema,
    *certify({ id, label, texts }, rng) {
      const settings = { ...options, batchSize: drawsPerRound };
      const found = yield* certifySmoothed(draw(texts), listThresholds(texts), settings, rng);
      const { label: predicted, samples, successes, undecided, lowerBound, pValues } = found;
      return {
        id,
        label,
        texts: [...texts],
        predicted,
        samples,
        successes,
        undecided,
        lowerBound,
        pValues: [...pValues],
      };
    },
    summarize: (lines) => ({
      kind: options.kind,
      ...summarizeClean(lines),
      certified: rows.map((each, i) => {
        const isRight = ({ label, predicted }: CertificateLine): boolean => label === predicted;
        const [row] = computeCertifiedAccuracy(
          lines,
          [each],
          (line) => isRight(line) && line.lowerBound > listThresholds(line.texts)[i]!,
        );
        const selected = selectCertified(
          lines.map(({ pValues }) => pValues[i] ?? 1),
          familyAlpha,
        );
        const count = lines.filter((line, k) => selected[k] && isRight(line)).length;
        return { ...row!, together: count / lines.length };
      }),
      covers,
      confidence:
        `Each certificate holds with confidence ${100 * (1 - options.alpha)}%, so about ${(options.alpha * lines.length).toFixed(1)} of ` +
        `${lines.length} may be wrong. In the column "together", all hold at once with confidence 95%.`,
    }),
    findDifference(recorded, computed) {
      if (computed.undecided === 0)
        return compareFields(recorded, computed, ["predicted", "samples", "successes", "lowerBound"]);
      const isNear = Math.abs(recorded.lowerBound - computed.lowerBound) <= computed.undecided / computed.samples;
      return isNear ? null : describeDifference("lowerBound", recorded.lowerBound, computed.lowerBound);
    },
  };
}

const canonicalLineSchema = z.object({ ...lineShape, undecided: z.boolean(), probability: z.number() });

function createCanonical({
  kind,
  minMargin,
}: z.output<typeof canonicalSchema>): CertificateKind<z.output<typeof canonicalLineSchema>> {
  return {
    lineSchema: canonicalLineSchema,
    *certify({ id, label, texts }) {
      const [row] = yield [texts.map(canonicalize)];
      const predicted = findLargestScore(row!);
      const undecided = isUndecided(row!, minMargin);
      return { id, label, texts: [...texts], predicted, undecided, probability: row![predicted]! };
    },
    summarize: (lines) => ({
      kind,
      ...summarizeClean(lines),
      certified: computeCertifiedAccuracy(
        lines,
        [{ substitutions: 0, insertions: 0 }],
        ({ label, predicted, undecided }) => label === predicted && !undecided,
      ),
      covers:
        "any number of changes that keep the canonical form: compatibility and look-alike characters, invisible " +
        "characters, spaced letters and white space",
      confidence: null,
    }),
    findDifference(recorded, computed) {
      if (computed.undecided) return null;
      return compareFields(recorded, computed, ["predicted"]) ?? compareScores(recorded, computed, "probability");
    },
  };
}

const windowLineSchema = z.object({
  ...lineShape,
  score: z.number(),
  /** The window that proves the score. */
  window: z.string().nullable(),
  windows: z.int().min(0),
});

function createWindows(options: z.output<typeof windowsSchema>): CertificateKind<z.output<typeof windowLineSchema>> {
  const { kind, positiveLabel, threshold, minMargin } = options;
  const sizes = listWindowSizes(options.size, "doubling");
  return {
    lineSchema: windowLineSchema,
    *certify({ id, label, texts }) {
      const found = yield* scoreWindows(texts[0]!, sizes, positiveLabel);
      const predicted = found.score > threshold ? positiveLabel : 1 - positiveLabel;
      return { id, label, texts: [...texts], predicted, ...found };
    },
    summarize(lines) {
      const positive = lines.filter(({ label }) => label === positiveLabel);
      return {
        kind,
        ...summarizeClean(lines),
        // Of the texts of the positive label: a guard is evaded, not triggered.
        certified: computeCertifiedAccuracy(
          positive,
          [{ substitutions: 0, insertions: 0 }],
          ({ score }) => score > threshold + minMargin,
        ),
        covers: "any amount of text before and after a text of the positive label (certified recall)",
        confidence: null,
        guard: summarizeGuard(
          lines.map(({ score, label }) => ({ score, isPositive: label === positiveLabel })),
          threshold,
        ),
      };
    },
    findDifference: (recorded, computed) =>
      compareFields(recorded, computed, ["windows"]) ?? compareScores(recorded, computed, "score"),
  };
}

/** Scores on another host may differ by this. */
const scoreTolerance = 1e-3;

function compareScores<Line, Key extends keyof Line & string>(recorded: Line, computed: Line, key: Key): string | null {
  const difference = Math.abs(Number(recorded[key]) - Number(computed[key]));
  return difference <= scoreTolerance ? null : describeDifference(key, recorded[key], computed[key]);
}

function compareFields<Line>(recorded: Line, computed: Line, keys: readonly (keyof Line & string)[]): string | null {
  const key = keys.find((each) => JSON.stringify(recorded[each]) !== JSON.stringify(computed[each]));
  return key === undefined ? null : describeDifference(key, recorded[key], computed[key]);
}

function describeDifference(key: string, recorded: unknown, computed: unknown): string {
  return `${key}: the journal says ${JSON.stringify(recorded)}, the model gives ${JSON.stringify(computed)}`;
}

/** The random stream of a text. */
export function createTextRng(seed: number, id: string): Rng {
  return new Rng(seed).fork("certify", id);
}
