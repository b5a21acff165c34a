import { formatCount, formatNumber, formatPercent } from "../format.js";
import type { EvaluationResult } from "../runs/results.js";
import { type Io, write } from "./io.js";
import { formatTable } from "./output.js";

/** A report for people: what was evaluated, then the metrics. */
export async function printEvaluation(io: Io, task: string, report: EvaluationResult): Promise<void> {
  const { split, examples, accuracy, interval, metrics } = report;
  const others = Object.entries(metrics).filter(([name]) => name !== "accuracy");
  const rows = [
    ["accuracy", `${formatPercent(accuracy)}  (95 %: ${formatInterval(interval)})`],
    ...others.map(([name, value]) => [name, formatNumber(value)]),
  ];
  await write(io.stdout, `${task} ${split}: ${formatCount(examples)} examples\n${formatTable(io.stdout, rows)}\n`);
}

export function formatInterval([low, high]: readonly [number, number]): string {
  return `${formatPercent(low)} to ${formatPercent(high)}`;
}
