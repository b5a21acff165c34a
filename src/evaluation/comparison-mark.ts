import type { MetricComparison } from "./compare.js";

/** The mark of the second model of a comparison: ▲ and ▼ if the difference is significant. */
interface ComparisonMark {
  readonly kind: "better" | "worse" | "odd";
  readonly symbol: "▲" | "▼" | "!";
}

/**
 * The mark of the second model, which is compared with the first. A degenerate model has a warning
 * instead. The report and the studio both use it, so they cannot disagree.
 */
export function getComparisonMark({
  better,
  warning,
}: Pick<MetricComparison, "better" | "warning">): ComparisonMark | null {
  if (better !== null) return better === "second" ? { kind: "better", symbol: "▲" } : { kind: "worse", symbol: "▼" };
  return warning === null ? null : { kind: "odd", symbol: "!" };
}
