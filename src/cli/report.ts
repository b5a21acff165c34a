import { formatCount, formatNumber, formatShare } from "../format.js";
import type { SplitReport } from "../runs/results.js";
import { type Io, write } from "./io.js";
import { table } from "./output.js";

/** A report for people: what was evaluated, then the metrics. */
export async function printReport(io: Io, task: string, report: SplitReport): Promise<void> {
  const { split, examples, accuracy, interval, metrics } = report;
  const others = Object.entries(metrics).filter(([name]) => name !== "accuracy");
  const rows = [
    ["accuracy", `${formatShare(accuracy)}  (95 %: ${formatInterval(interval)})`],
    ...others.map(([name, value]) => [name, formatNumber(value)]),
  ];
  await write(io.stdout, `${task} ${split}: ${formatCount(examples)} examples\n${table(io.stdout, rows)}\n`);
}

export function formatInterval([low, high]: readonly [number, number]): string {
  return `${formatShare(low)} to ${formatShare(high)}`;
}
