import type { MetricComparison } from "./compare.js";

/** The mark of the second model, if it differs significantly from the first. A degenerate model has a warning instead. */
export function getComparisonMark({ better, warning }: Pick<MetricComparison, "better" | "warning">) {
  if (better === "second") return { kind: "better", symbol: "▲" } as const;
  if (better === "first") return { kind: "worse", symbol: "▼" } as const;
  return warning === null ? null : ({ kind: "odd", symbol: "!" } as const);
}
