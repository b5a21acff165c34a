import type { Example } from "../tasks/example.js";

export interface TextAttackRequest {
  /** An attack with its options, such as `genetic:population=20`. */
  readonly attack: string;
  readonly maskedLm: string | null;
  readonly examples: readonly Example[];
  readonly seed: string;
  /** Maximum number of queries per text; null: the attack's own limit. */
  readonly maxQueries: number | null;
  readonly precision: "auto" | "bf16" | "int8" | "fp32";
  onResult?(done: number): void;
}

/** Returns texts that fool the model, or null. Without examples, checks that it can run. */
export type FindAdversarialTexts = (request: TextAttackRequest) => Promise<readonly (readonly string[] | null)[]>;

/** Paths that a training writes; the owner of the run folder chooses them. */
export interface TrainingFiles {
  readonly events: string;
  readonly timings: string;
  readonly checkpoints: string;
  readonly adapter: string;
}

/** Validation metrics by name: those of evaluation/metrics.ts and the methods' extra metrics. */
export type Metrics = Readonly<Record<string, number>>;

export interface TrainResult {
  readonly steps: number;
  readonly epochs: number;
  /** The step whose weights the model now has. */
  readonly bestStep: number;
  readonly validation: Metrics | null;
  readonly validationDegeneracy: string | null;
  readonly seconds: number;
}
