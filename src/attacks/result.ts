import { type AttackSpaceSize, computeAttackSpaceSize } from "../text/replacements.js";
import { type AttackExample, applyReplacements } from "./attack-space.js";
import type { Score } from "./search.js";

/** One changed word. */
export interface Edit {
  readonly position: number;
  readonly from: string;
  readonly to: string;
}

/** skipped: wrong before any change, an error in accuracy under attack; success: the victim was fooled; failed: it held. */
export type AttackOutcome = "skipped" | "success" | "failed";

/** What became of one example; a line of the journal. */
export interface AttackResult {
  readonly id: string;
  readonly label: number;
  readonly outcome: AttackOutcome;
  /** Texts scored as the sequential algorithm asks them, the original included. */
  readonly queries: number;
  /** True where the query budget ended the search. */
  readonly exhausted: boolean;
  /** Whether a failure proves that no substitution works; only from searches that can tell. */
  readonly exact?: boolean;
  /** True where some decision hung on a lead under 1e-4, which another batch shape may turn. */
  readonly nearTie: boolean;
  /** True where language-model swaps were wanted but the text has none. */
  readonly withoutLanguageModel: boolean;
  /** Probabilities a class of the original and of the final text, to six digits. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly edits: readonly Edit[];
  readonly space: AttackSpaceSize;
  readonly texts: readonly string[];
  /** How many words each field has. */
  readonly fieldSizes: readonly number[];
  readonly words: readonly string[];
  readonly final: readonly string[];
}

/** What an attack found out about a target. */
export interface SearchOutcome {
  readonly outcome: AttackOutcome;
  readonly replacementIndices: Int16Array;
  readonly queries: number;
  readonly before: Score;
  readonly after: Score;
  readonly nearTie: boolean;
  readonly exhausted?: boolean;
  readonly exact?: boolean;
}

/** Writes a finding out in full. */
export function createAttackResult(target: AttackExample, finding: SearchOutcome): AttackResult {
  const { words } = target;
  const final = applyReplacements(target, finding.replacementIndices);
  const edits = words.flatMap((from, position) =>
    final[position] === from ? [] : [{ position, from, to: final[position]! }],
  );
  return {
    id: target.id,
    label: target.label,
    outcome: finding.outcome,
    queries: finding.queries,
    exhausted: finding.exhausted ?? false,
    ...(finding.exact !== undefined && { exact: finding.exact }),
    nearTie: finding.nearTie,
    withoutLanguageModel: target.withoutLanguageModel,
    before: roundProbabilities(finding.before),
    after: roundProbabilities(finding.after),
    edits,
    space: computeAttackSpaceSize(target.replacements),
    texts: target.texts,
    fieldSizes: target.texts.map((_, field) => Array.from(target.fields).filter((other) => other === field).length),
    words,
    final,
  };
}

function roundProbabilities(score: Score): number[] {
  return Array.from(score.probabilities, (value) => Math.round(value * 1e6) / 1e6);
}
