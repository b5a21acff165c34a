import type { GuardSummary } from "../certificates/guard.js";
import { formatInterval, formatNumber, formatPercent } from "../format.js";

/** What a guard does at its threshold, in a sentence. */
export function formatGuard(guard: GuardSummary): string {
  const { threshold, recall, recallInterval, falsePositiveRate, falsePositiveInterval } = guard;
  const describe = (name: string, rate: number | null, interval: GuardSummary["recallInterval"]): string[] =>
    rate === null || interval === null
      ? []
      : [`${name} ${formatPercent(rate)} (95% CI ${formatInterval(interval.low, interval.high)})`];
  const parts = [
    ...describe("recall", recall, recallInterval),
    ...describe("false-positive rate", falsePositiveRate, falsePositiveInterval),
  ];
  return `At the threshold ${formatNumber(threshold, 6)}: ${parts.join(", ")}.`;
}
