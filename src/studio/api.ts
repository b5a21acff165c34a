import type { SearchStep } from "../actions/attack/attack-text.js";
import type { AttackOutcome } from "../attacks/result.js";
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

export interface RunRow extends Omit<RunSummary, "folder"> {
  /** Names the run in requests. */
  readonly id: string;
  /** The path below the folder that the studio shows. */
  readonly name: string;
  /** The path as commands take it. */
  readonly folder: string;
  /** The methods with their options. */
  readonly methodLabel: string;
  readonly hasModel: boolean;
  /** The label whose texts were attacked; null if they are of every label. */
  readonly attackedLabel: string | null;
  /**
   * By metric id: accuracy, clean, each attack, worst-case. Attacks on other texts than those of
   * clean and worst-case are only in the list of journals.
   */
  readonly metrics: Readonly<Record<string, MetricCell>>;
}

export interface ExportRow {
  readonly id: string;
  readonly name: string;
}

/** What an open page does not know yet, and everything else that changes. */
export interface StudioState {
  /** The page sends it with its next request. */
  readonly version: number;
  /** New and changed rows; all of them if the page must forget the others. */
  readonly rows: readonly RunRow[];
  readonly isComplete: boolean;
  readonly exports: readonly ExportRow[];
  readonly jobs: readonly JobRow[];
  /** True when every run has been read once. */
  readonly isReady: boolean;
}

export interface JournalInfo {
  readonly name: string;
  readonly done: number;
  readonly total: number;
}

/** Everything on the page of one run. Texts are parts of a report: names in them are escaped. */
export interface RunDetail {
  readonly row: RunRow;
  readonly journals: readonly JournalInfo[];
  /** The numbers of all attacks; null if there are none. */
  readonly attackTable: string | null;
  readonly commands: readonly string[];
  readonly warnings: readonly string[];
  /** The numbers, the certificates and the charts of the training. */
  readonly results: string;
  /** The figures, the settings and where the run was trained. */
  readonly background: string;
}

export interface TextsPage {
  readonly total: number;
  readonly matching: number;
  /** The first of them, as a part of a report. */
  readonly html: string;
}

/** A comparison, as a part of a report. */
export interface ComparisonAnswer {
  readonly names: readonly string[];
  readonly html: string;
}

export interface PlaygroundModel {
  readonly reference: string;
  readonly labels: readonly string[];
  readonly fields: readonly string[];
  readonly attacks: readonly (FormOption & { readonly fields: readonly FormField[] })[];
}

export interface PlaygroundExample {
  readonly texts: readonly string[];
  /** The name of its label; empty if it has none. */
  readonly label: string;
}

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
  | ({ readonly type: "step" } & SearchStep)
  | {
      readonly type: "end";
      readonly outcome: AttackOutcome;
      readonly queries: number;
      readonly texts: readonly string[];
      readonly html: string;
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
  /** The id of the run that it writes, if it exists. */
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

export interface DataColumns {
  readonly columns: readonly string[];
  readonly problem: string | null;
}

/** A field of a form, as the schema describes it. */
export interface FormField {
  readonly key: string;
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

/** A pair of texts to judge, as parts of a report. Which one is the original is not sent. */
export interface RatingPair {
  readonly id: string;
  readonly first: string;
  readonly second: string;
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
