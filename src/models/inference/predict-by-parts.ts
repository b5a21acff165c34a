import type { Predictor, PreparedText } from "./predictor.js";
import type { Score } from "./score.js";

/** Splits a text, and combines the answers for its parts. */
export interface PartRule<Answer extends Score> {
  split(texts: readonly string[]): readonly (readonly string[])[];
  /** The answer by the probabilities of the parts. */
  combine(rows: readonly ArrayLike<number>[]): Answer;
}

/** Parts that are remembered. An edit of a text changes few of its parts. */
const maxKnownParts = 200_000;

/** Wraps a predictor so that it answers by parts of a text, each distinct one computed once. */
export function predictByParts<Answer extends Score>(
  base: Predictor,
  { split, combine }: PartRule<Answer>,
): Predictor<PreparedText & { readonly parts: readonly string[] }, Answer & { readonly truncated: boolean }> {
  const { name, numLabels, callLimits } = base;
  const known = new Map<string, { readonly row: ArrayLike<number>; readonly truncated: boolean }>();
  return {
    name,
    numLabels,
    callLimits,
    prepare: (texts) =>
      texts.map((fields) => {
        const parts = split(fields).map((part) => JSON.stringify(part));
        // About four characters per token.
        const length = Math.ceil(parts.reduce((sum, part) => sum + part.length, 0) / 4);
        return { parts, passes: parts.length, content: parts.join("\n"), length };
      }),
    async predict(items, { client } = {}) {
      const found = new Map<string, { readonly row: ArrayLike<number>; readonly truncated: boolean }>();
      const missing: string[] = [];
      for (const part of new Set(items.flatMap(({ parts }) => parts))) {
        const remembered = known.get(part);
        if (remembered) found.set(part, remembered);
        else missing.push(part);
      }
      for (let start = 0; start < missing.length; start += callLimits.maxTexts) {
        const chunk = missing.slice(start, start + callLimits.maxTexts);
        const texts = chunk.map((part) => JSON.parse(part) as readonly string[]);
        const prepared = base.prepare(texts);
        const answers = await base.predict(prepared, client === undefined ? {} : { client });
        for (const [i, part] of chunk.entries()) {
          const { truncated = false } = prepared[i]!;
          found.set(part, { row: answers[i]!.probabilities, truncated });
          known.set(part, found.get(part)!);
        }
      }
      // The oldest are forgotten first.
      for (const part of known.keys()) {
        if (known.size <= maxKnownParts) break;
        known.delete(part);
      }
      return items.map(({ parts }) => {
        const own = parts.map((part) => found.get(part)!);
        return { ...combine(own.map(({ row }) => row)), truncated: own.some(({ truncated }) => truncated) };
      });
    },
  };
}
