import type { EditedText } from "../edited-text.js";
import type { Constraint } from "../protocol.js";
import { request } from "../requests.js";
import type { SentenceEncoder } from "../resources.js";

export interface SimilarityOptions {
  readonly threshold: number;
  /** Words around the changed word that are compared; null: the complete text. */
  readonly window?: number | null;
  /** The text that a candidate is compared with. */
  readonly reference?: "original" | "current";
  /** Texts of fewer words than the window are not compared. */
  readonly skipsShortTexts?: boolean;
  readonly metric?: "cosine" | "angular";
}

/** The vectors of a candidate and of the reference text are similar (a sentence encoder). */
export function minSentenceSimilarity(encoder: SentenceEncoder, options: SimilarityOptions): Constraint {
  const { threshold, window = null, reference = "original", skipsShortTexts = false, metric = "cosine" } = options;
  return {
    name: `${metric} similarity of at least ${threshold}${window === null ? "" : ` in a window of ${window} words`}`,
    *filter(candidates, current) {
      if (skipsShortTexts && window !== null && current.length < window) return candidates;
      const base = reference === "original" ? current.original : current;
      const pairs = candidates.map((candidate) => {
        const center = Math.max(0, candidate.position);
        const { origin } = candidate;
        const baseCenter = reference === "original" && origin >= 0 ? origin : Math.min(center, base.length - 1);
        return [selectWindow(base, baseCenter, window), selectWindow(candidate, center, window)] as const;
      });
      const texts = [...new Set(pairs.flat())];
      const vectors = yield* request(encoder, texts);
      const byText = new Map(texts.map((text, i) => [text, vectors[i]!]));
      return candidates.filter((candidate, i) => {
        const [first, second] = pairs[i]!;
        const cosine = computeCosine(byText.get(first)!, byText.get(second)!);
        candidate.similarity = metric === "cosine" ? cosine : computeAngular(cosine);
        return candidate.similarity >= threshold;
      });
    },
  };
}

/** The text from the first to the last word of a window around a word. */
function selectWindow(text: EditedText, center: number, window: number | null): string {
  const { slots, texts } = text;
  if (window === null || slots.length === 0) return texts.join("\n");
  const half = Math.floor(window / 2);
  const start = Math.max(0, Math.min(center - half, slots.length - window));
  const last = Math.min(slots.length, start + window) - 1;
  const [first, end] = [slots[start]!, slots[last]!];
  if (first.field === end.field) return texts[first.field]!.slice(first.start, end.end);
  return `${texts[first.field]!.slice(first.start)}\n${texts[end.field]!.slice(0, end.end)}`;
}

/** Vectors have length 1, so the dot product is the cosine. */
export function computeCosine(first: Float32Array, second: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < first.length; i++) sum += first[i]! * second[i]!;
  return Math.max(-1, Math.min(1, sum));
}

/** 1 - angle / pi. */
export function computeAngular(cosine: number): number {
  return 1 - Math.acos(cosine) / Math.PI;
}
