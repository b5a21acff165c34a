import type { Interval } from "./statistics.js";
import { wilsonInterval } from "./statistics.js";

/** The knowledge of one text: how far it is proven robust, and what is known to fool the model. */
interface TextBounds {
  /** No set of at most this many substitutions fools the model; -1 if nothing is proven. */
  readonly provenUpTo: number;
  /** The smallest known number of substitutions that does; null if none is known. */
  readonly minChanges: number | null;
}

/** Robust accuracy lies between the two, over the same texts. */
interface Bracket {
  changes: number;
  /** Fraction of texts that are proven robust, by enumeration or by a certificate. */
  proven: number;
  provenInterval: Interval;
  /** Fraction of texts that nothing is known to fool: accuracy under attack. */
  unbroken: number;
  unbrokenInterval: Interval;
}

/** The bracket of robust accuracy at 0 … `maxChanges` substitutions. */
export function computeBracket(texts: readonly TextBounds[], maxChanges: number): Bracket[] {
  const count = texts.length;
  return Array.from({ length: maxChanges + 1 }, (_, changes) => {
    const proven = texts.filter(({ provenUpTo }) => provenUpTo >= changes).length;
    const unbroken = texts.filter(({ minChanges }) => minChanges === null || minChanges > changes).length;
    return {
      changes,
      proven: proven / count,
      provenInterval: wilsonInterval(proven, count),
      unbroken: unbroken / count,
      unbrokenInterval: wilsonInterval(unbroken, count),
    };
  });
}

/** The distribution of the smallest number of substitutions. */
interface MinChangesDistribution {
  /** Texts by the smallest number that fools the model, where it is exact: 0 is misclassified. */
  exact: number[];
  /** Texts that are proven robust up to the maximum. */
  robust: number;
  /** Texts of which the smallest number is not known. */
  open: number;
}

/** The distribution of the smallest number of substitutions. */
export function countMinChanges(texts: readonly TextBounds[], maxChanges: number): MinChangesDistribution {
  const exact = Array.from(
    { length: maxChanges + 1 },
    (_, changes) => texts.filter((text) => text.minChanges === changes && text.provenUpTo === changes - 1).length,
  );
  const robust = texts.filter(({ provenUpTo }) => provenUpTo >= maxChanges).length;
  return { exact, robust, open: texts.length - robust - exact.reduce((sum, each) => sum + each, 0) };
}
