import type { SearchStep } from "../actions/attack/attack-text.js";
import type { AttackOutcome } from "../attacks/result.js";
import type { WordChange } from "../attacks/word-changes.js";
import type { WorkProgress } from "../jobs/work-request.js";
import type { RunSummary } from "../runs/list-runs.js";
import type { TextPiece } from "../text/text-pieces.js";

// The messages between server and page. The page imports these types, and nothing else.

/** A number of a run with its 95% CI, if it is a fraction of examples. */
export interface MetricCell {
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  /** The number of texts; null if it is not a fraction of texts. */
  readonly examples: number | null;
}

/** One run of the table. */
export interface RunRow extends Omit<RunSummary, "folder"> {
  /** Names the run in requests. */
  readonly id: string;
  /** The path below the folder that the studio shows. */
  readonly name: string;
  /** The path as commands take it. */
  readonly folder: string;
  /** Equal for runs that differ only in their seed. */
  readonly group: string;
  /** The methods with their options. */
  readonly methodLabel: string;
  /** The sweep that the run belongs to. */
  readonly sweep: string | null;
  readonly hasModel: boolean;
  /** The label whose texts were attacked; null if they are of every label. */
  readonly attackedLabel: string | null;
  /**
   * By metric id: accuracy, clean, each attack, worst-case. Attacks on other texts than those of
   * clean and worst-case are only in the list of journals.
   */
  readonly metrics: Readonly<Record<string, MetricCell>>;
}

/** A sweep below the folders: how many of its runs have finished. */
export interface SweepRow {
  readonly name: string;
  readonly finished: number;
  readonly total: number;
}

/** A folder with an ONNX model, for the playground. */
export interface ExportRow {
  readonly id: string;
  readonly name: string;
}

/** A message to an open page. */
export type LiveMessage =
  | { readonly type: "runs"; readonly rows: readonly RunRow[]; readonly removed: readonly string[] }
  | { readonly type: "sweeps"; readonly sweeps: readonly SweepRow[] }
  | { readonly type: "jobs"; readonly jobs: readonly JobRow[] }
  | { readonly type: "exports"; readonly exports: readonly ExportRow[] }
  /** Every run has been read once. */
  | { readonly type: "ready" };

export interface Series {
  readonly name: string;
  /** The color of a model in a comparison; otherwise the page chooses one. */
  readonly color?: string;
  readonly steps: readonly number[];
  readonly values: readonly number[];
}

/** The lines of one chart. */
export interface ChartData {
  readonly id: string;
  readonly title: string;
  readonly unit: "percent" | "number";
  readonly series: readonly Series[];
}

export interface JournalInfo {
  readonly name: string;
  readonly done: number;
  readonly total: number;
}

/** Everything on the page of one run. Names and texts in its parts of a report are escaped. */
export interface RunDetail {
  readonly row: RunRow;
  readonly charts: readonly ChartData[];
  readonly labels: readonly string[];
  readonly journals: readonly JournalInfo[];
  /** The numbers of all attacks, as a report shows them; null if there are none. */
  readonly attackTable: string | null;
  readonly commands: readonly string[];
  readonly warnings: readonly string[];
  /** Bounds on the accuracy under every attack, as a report shows them; null if there are none. */
  readonly bounds: string | null;
  /** The figures, the settings and where the run was trained. */
  readonly background: string;
}

/** A piece of a text. A word that an attack replaced has its original in `was`. */
export interface DiffPiece {
  readonly text: string;
  readonly was?: string;
}

/** One attacked text. */
export interface JournalText {
  readonly id: string;
  readonly label: number;
  readonly outcome: AttackOutcome;
  readonly queries: number;
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly edits: readonly WordChange[];
  /** The final text of each field. */
  readonly fields: readonly (readonly DiffPiece[])[];
}

/** A part of the texts that match a search. */
export interface TextsPage {
  readonly total: number;
  readonly matching: number;
  readonly texts: readonly JournalText[];
}

/** A comparison as a report shows it. */
export interface ComparisonAnswer {
  /** Markup of this package. Names and texts in it are escaped. */
  readonly html: string;
  readonly charts: readonly ChartData[];
}

/** A model that the playground has loaded. */
export interface PlaygroundModel {
  readonly reference: string;
  readonly labels: readonly string[];
  readonly fields: readonly string[];
  readonly attacks: readonly AttackChoice[];
}

/** An attack to choose, with a field for each of its options. */
export interface AttackChoice extends FormOption {
  readonly fields: readonly FormField[];
}

/** A text of the model's task. */
export interface PlaygroundExample {
  readonly texts: readonly string[];
  /** The name of its label; empty if it has none. */
  readonly label: string;
}

/** A model's answer for a text. */
export interface Scored {
  readonly probabilities: readonly number[];
  /** The texts in pieces: words with their index, and what is between them. */
  readonly pieces: readonly (readonly TextPiece[])[];
  /** Empty unless the words were asked for. */
  readonly words: readonly ScoredWord[];
}

export interface ScoredWord {
  /** The fall of the predicted label's probability if the word is hidden. */
  readonly importance: number;
  readonly substitutes: readonly string[];
}

/** A message to the playground while it attacks a text. */
export type SearchMessage =
  | { readonly type: "start"; readonly pieces: readonly (readonly TextPiece[])[] }
  | ({ readonly type: "step" } & SearchStep)
  | {
      readonly type: "end";
      readonly result: JournalText;
      /** The texts after the attack. */
      readonly texts: readonly string[];
    }
  | { readonly type: "error"; readonly message: string };

export type JobState = "running" | "stopped" | "finished" | "failed";

/** A process that the studio started. */
export interface JobRow {
  readonly id: string;
  readonly kind: "harden" | "train" | "attack";
  readonly title: string;
  readonly state: JobState;
  /** Null until it has counted its work. */
  readonly progress: WorkProgress | null;
  readonly started: string;
  readonly error: string | null;
  readonly command: string;
  /** The run that it writes, if it exists. */
  readonly run: string | null;
}

/** The problems of a form: messages by the key of the field. */
export interface FormCheck {
  readonly problems: Readonly<Record<string, string>>;
  readonly command: string | null;
  readonly code: string | null;
  /** The question before a job that takes long; null if there is none. */
  readonly question: string | null;
}

/** A value to choose, and what it means. */
export interface FormOption {
  readonly value: string;
  readonly hint: string;
}

/** Values to start a form with. */
export interface FormPreset {
  readonly title: string;
  readonly hint: string;
  readonly values: Readonly<Record<string, string>>;
}

export interface Form {
  readonly fields: readonly FormField[];
  readonly presets: readonly FormPreset[];
}

/** The columns of a file and its first rows, or why it cannot be read. */
export interface DataPreview {
  readonly columns: readonly string[];
  /** The first rows, as a part of a report. */
  readonly table: string;
  readonly problem: string | null;
}

/** A field of a form, as the schema describes it. */
export interface FormField {
  readonly key: string;
  /** The name that people read. */
  readonly label: string;
  readonly type: "text" | "number" | "boolean" | "choice" | "list";
  readonly default: unknown;
  /** The meaning of an empty field: its default, or what null means. */
  readonly whenEmpty: string;
  readonly description: string;
  readonly required: boolean;
  /** True if the field is shown without opening "All settings". */
  readonly isMain: boolean;
  /** Values to choose from. Others can be typed, unless the type is "choice". */
  readonly options: readonly FormOption[];
}

/** A pair to judge. Which text is the original is not sent. */
export interface RatingPair {
  readonly id: string;
  readonly first: readonly string[];
  readonly second: readonly string[];
}

export interface RatingReport {
  readonly ratings: number;
  readonly raters: number;
  readonly pairs: number;
  /** Fraction of the pairs whose meaning most raters found the same. */
  readonly validity: MetricCell | null;
  readonly grammar: { readonly original: MetricCell; readonly attacked: MetricCell } | null;
  /** Fleiss' kappa of the judgments of meaning; null if no pair has two raters. */
  readonly agreement: number | null;
}

/** A finished audit: its verdict, and its chart and findings as a part of a report. */
export interface AuditRow {
  readonly folder: string;
  readonly model: string;
  readonly verdict: string;
  readonly html: string;
}
