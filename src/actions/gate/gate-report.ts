import type { AttackResult } from "../../attacks/result.js";
import type { GateVerdict } from "../../evaluation/non-inferiority.js";
import type { EvaluationResult } from "../../runs/results.js";
import type { GateCheck } from "./judge.js";

/** A text that only the candidate gets wrong. */
export interface GateFailure {
  readonly id: string;
  /** Null without an attack. */
  readonly attack: string | null;
  readonly label: number;
  /** The probability of the true label. */
  readonly baselineScore: number;
  readonly candidateScore: number;
  readonly result: AttackResult;
}

/** What a gate found. */
export interface GateReport {
  readonly verdict: GateVerdict;
  readonly candidate: string;
  readonly baseline: string;
  readonly task: string;
  readonly labels: readonly string[];
  readonly examples: number;
  readonly checks: readonly GateCheck[];
  /** What the calibrated guard of the candidate does with the texts; null if it has none. */
  readonly guard: NonNullable<EvaluationResult["guard"]> | null;
  /** The worst of the new failures. */
  readonly failures: readonly GateFailure[];
  readonly newFailures: { readonly attacked: number; readonly clean: number };
  readonly seconds: number;
  readonly finishedAt: string;
}
