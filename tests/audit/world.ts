import type { PredictProbabilities } from "../../src/attacks/function-victim.js";
import type { AuditResult } from "../../src/audit/audit-result.js";
import { Rng } from "../../src/base/rng.js";
import { type AuditRequest, audit } from "../../src/index.js";
import { canonicalize } from "../../src/text/canonicalize.js";

const cues = {
  negative: "awful boring broken cheap cold dull empty ugly noisy rude slow weak".split(" "),
  positive: "bright brilliant clean clever fresh gentle honest lovely quick sharp solid warm".split(" "),
} as const;
const filler = (
  "the a this that film book room table service staff garden river street music light paper story evening morning " +
  "window kitchen journey chapter scene actor driver engine camera screen coffee bridge market winter summer teacher"
).split(" ");

export interface LabeledText {
  readonly text: string;
  readonly label: string;
}

/** Texts whose label is that of most of their telling words, by at least two. */
export function createTexts(count: number, seed: string): LabeledText[] {
  const rng = new Rng(seed);
  const pick = (words: readonly string[]): string => words[rng.integer(words.length)]!;
  return Array.from({ length: count }, (_, i) => {
    const [label, other] = i % 2 === 0 ? (["negative", "positive"] as const) : (["positive", "negative"] as const);
    const words = Array.from({ length: 8 + rng.integer(8) }, () => pick(filler));
    const own = Array.from({ length: 3 + rng.integer(3) }, () => pick(cues[label]));
    const telling = rng.next() < 0.3 ? [...own, pick(cues[other])] : own;
    return { text: rng.shuffle([...words, ...telling]).join(" "), label };
  });
}

const words = (text: string): string[] => text.toLowerCase().match(/\p{L}+/gu) ?? [];

/** Counts telling words of the canonical text: a model without any of the planted problems. */
export function countCues(text: string, scale = 1): [number, number] {
  const found = words(canonicalize(text));
  const count = (list: readonly string[]): number => found.filter((word) => list.includes(word)).length;
  const positive = 1 / (1 + Math.exp(-scale * (count(cues.positive) - count(cues.negative))));
  return [1 - positive, positive];
}

/** A model that classifies each text by a function. */
export function createModel(classify: (text: string) => [number, number]): PredictProbabilities {
  return (texts) => texts.map((text) => classify([text].flat().join(" ")));
}

export const cleanModel = createModel((text) => countCues(text));

/** Audits without attacks and proofs, which have their own tests. */
export function auditPlanted(
  model: PredictProbabilities,
  data: readonly LabeledText[] | string,
  out: string,
  more: Partial<AuditRequest> = {},
): Promise<AuditResult> {
  return audit({ model, data, out, attacks: [], maxChanges: 0, minutes: 1, ...more });
}

/** The findings that were planted somewhere. */
const plantedIds = [
  ...["leak", "label-errors", "label-errors-train", "spurious-words", "backdoor-trigger", "degenerate-model"],
  ...["degenerate-class", "overconfidence", "truncation", "hidden-text"],
];

export function listPlanted({ findings }: AuditResult): string[] {
  return [...new Set(findings.map(({ id }) => id).filter((id) => plantedIds.includes(id)))].sort();
}
