import { z } from "zod";
import { validate } from "../../base/validate.js";
import { type Interval, wilsonInterval } from "../../evaluation/statistics.js";
import type { Normalization } from "../../text/canonical-tokenizer.js";
import type { CertifiedModel } from "./certified-model.js";
import type { Guard, GuardSummary } from "./guard.js";
import type { ScoringProcess, TextFields } from "./scoring.js";
import type { WordEdits } from "./words.js";

// A journal may come from elsewhere, so no number of it decides how long a verification takes, or how much memory.
const modelShape = {
  numLabels: z.int().min(2).max(10_000),
  /** The fields that an attacker may edit. */
  editableFields: z.array(z.int().min(0)),
  /** Labels that win by less are undecided. */
  minMargin: z.number().min(0),
};
/** The facts about a model that every certificate depends on. */
export type ModelFacts = z.output<z.ZodObject<typeof modelShape>>;

/** The kind and the options of a certificate as journals record them. `createCertificate` checks the other keys. */
export const certificateOptionsSchema = z.looseObject({ kind: z.string(), ...modelShape });
export type CertificateOptions = Readonly<z.output<typeof certificateOptionsSchema>>;

/** The largest number of edits in a table, as recorded by certificates that count edits. */
export const maxEditsSchema = z.int().min(1).max(100);

const lineShape = {
  id: z.string(),
  label: z.int().min(0),
  texts: z.array(z.string()).min(1).max(2),
  predicted: z.int().min(0),
};
/** One line of a journal: a text, the prediction of the certified model, and its certificate. */
export type CertificateLine = z.output<z.ZodObject<typeof lineShape>>;

export interface LabeledText {
  readonly id: string;
  readonly label: number;
  readonly texts: TextFields;
}

/** A row of a table: a number of edits, or a name for edits that have no number. */
export interface EditRow extends WordEdits {
  readonly name?: string | undefined;
}

/** A row of a table of certified accuracy. */
export interface CertifiedRow extends EditRow {
  /** The fraction of texts whose prediction is correct and certified for these edits. */
  readonly accuracy: number;
  /** The 95% CI of the accuracy over texts. */
  readonly interval: Interval;
}

/** Describes the certificates of all texts together. */
export interface CertificateSummary {
  readonly kind: string;
  readonly examples: number;
  /** The accuracy of the certified model without edits. */
  readonly clean: number;
  readonly certified: readonly CertifiedRow[];
  readonly cleanInterval: Interval;
  /** The edits that the certificates are about. */
  readonly covers: string;
  /** The recall and the false-positive rate, if a guard is certified. Its rows are then about the positive label. */
  readonly guard?: GuardSummary;
}

/** The certificate that a model was trained for. Its training method names it. */
export interface TrainedCertificate {
  readonly definition: CertificateDefinition;
  /** The options of the training that the certificate depends on. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Creates the model that answers. Without it, complete texts are classified. */
  createModel?(facts: {
    readonly numLabels: number;
    readonly minMargin: number;
    readonly editableFields?: readonly number[] | undefined;
  }): CertifiedModel;
}

/** The task and the run that a certificate is chosen for. */
export interface CertificateContext {
  /** The number of texts of an example: 2 for pairs. */
  readonly numFields: number;
  /** Returns the calibrated guard of the run, or one with the threshold 1/2. */
  findGuard(choice: { readonly windows: number; readonly positiveLabel: string | null }): Promise<Guard>;
}

type Output<Shape extends z.ZodRawShape> = z.output<z.ZodObject<Shape>>;

/** The parts of a certificate, with the options given. */
export interface CertificateParts<Found extends z.ZodRawShape = z.ZodRawShape> {
  readonly rows: readonly EditRow[];
  certify(text: LabeledText): ScoringProcess<Output<Found> & { readonly predicted: number }>;
  /** Returns true if the edits of a row, by its index, cannot change the prediction. */
  isCertified(line: CertificateLine & Output<Found>, row: number): boolean;
  /** Adds what only this certificate reports. */
  extendSummary?(summary: CertificateSummary, lines: readonly (CertificateLine & Output<Found>)[]): CertificateSummary;
}

/** A kind of certificate: its name, its options, and a function that creates its parts. */
export interface CertificateDefinition<
  Schema extends z.ZodType = z.ZodType,
  Recorded extends z.ZodRawShape = z.ZodRawShape,
  Found extends z.ZodRawShape = z.ZodRawShape,
> {
  readonly name: string;
  /** One line for tables and --help. */
  readonly summary: string;
  readonly covers: string;
  /** A method that trains a model for it, such as "hash-vote:groups=25". Without one, any model can be certified. */
  readonly trainedBy?: string;
  /** Options of a request with their defaults, which are defined only here. */
  readonly options: Schema;
  /**
   * The options that a journal records, besides the facts about the model: those of the request and
   * of the training, and maxEdits if the table counts edits.
   */
  readonly recorded: Recorded;
  /** The keys of a line of the journal, besides those of all certificates. */
  readonly line: Found;
  /** Changes the options of a request to those that are recorded. */
  resolve?(options: z.output<Schema>, context: CertificateContext): Promise<Partial<Output<Recorded>>>;
  /** Throws an error if the certificate would be about another model than this one. */
  checkModel?(model: { readonly normalize: Normalization }): void;
  create(options: ModelFacts & Output<Recorded>): CertificateParts<Found>;
}

/**
 * Defines a certificate. `certify` accepts it with the options of a request.
 * examples/custom-certificate.ts is a complete example.
 *
 * @example
 * const lowerCase = defineCertificate(definition);
 * await certify({ model: "runs/reviews", kind: { definition: lowerCase } });
 */
export function defineCertificate<
  Schema extends z.ZodType,
  Recorded extends z.ZodRawShape,
  Found extends z.ZodRawShape,
>(definition: CertificateDefinition<Schema, Recorded, Found>): CertificateDefinition<Schema, Recorded, Found> {
  return definition;
}

/** A certificate with all its options, ready to certify texts. */
export interface Certificate {
  readonly options: CertificateOptions;
  readonly lineSchema: z.ZodType<CertificateLine>;
  certify(text: LabeledText): ScoringProcess<CertificateLine>;
  summarize(lines: readonly CertificateLine[]): CertificateSummary;
}

/** Creates a certificate from the options that a journal records. `location` is for error messages. */
export function createCertificate(definition: CertificateDefinition, recorded: object, location: string): Certificate {
  const { name, covers, line, recorded: shape } = definition;
  const schema = z.strictObject({ kind: z.literal(name), ...modelShape, ...shape });
  const options = validate(schema, recorded, location);
  const { rows, certify, isCertified, extendSummary } = definition.create(options);
  return {
    options,
    // Each certificate reads only the lines that it has written.
    lineSchema: z.object({ ...lineShape, ...line }),
    *certify(text) {
      const { id, label, texts } = text;
      const { predicted, ...found } = yield* certify(text);
      return { id, label, texts: [...texts], predicted, ...found };
    },
    summarize(lines) {
      const correct = lines.filter(({ label, predicted }) => label === predicted).length;
      const summary: CertificateSummary = {
        kind: name,
        examples: lines.length,
        clean: correct / lines.length,
        certified: computeCertifiedAccuracy(
          lines,
          rows,
          (each, row) => each.label === each.predicted && isCertified(each, row),
        ),
        cleanInterval: wilsonInterval(correct, lines.length),
        covers,
      };
      return extendSummary?.(summary, lines) ?? summary;
    },
  };
}

/**
 * Computes certified accuracy for each row of a table. `isCertified` tells whether the prediction of
 * a text is correct and stays the same under the edits of a row.
 */
export function computeCertifiedAccuracy<Line>(
  lines: readonly Line[],
  rows: readonly EditRow[],
  isCertified: (line: Line, row: number) => boolean,
): CertifiedRow[] {
  return rows.map((edits, row) => {
    const count = lines.filter((line) => isCertified(line, row)).length;
    return { ...edits, accuracy: count / lines.length, interval: wilsonInterval(count, lines.length) };
  });
}

/** The rows of a table that counts word edits: so many substitutions, then so many insertions or deletions. */
export function listEditRows(maxEdits: number): EditRow[] {
  const counts = Array.from({ length: maxEdits }, (_, i) => i + 1);
  return [
    ...counts.map((substitutions) => ({ substitutions, insertions: 0 })),
    ...counts.map((insertions) => ({ substitutions: 0, insertions })),
  ];
}

export function describeEdits({ substitutions, insertions, name }: EditRow): string {
  if (substitutions > 0) return `${substitutions} ${substitutions === 1 ? "substitution" : "substitutions"}`;
  if (insertions > 0) return `${insertions} ${insertions === 1 ? "insertion or deletion" : "insertions or deletions"}`;
  return name ?? "without a limit";
}
