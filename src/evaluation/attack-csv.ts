import { readJournal } from "../attacks/journal.js";
import type { AttackResult } from "../attacks/result.js";
import { createTextTemplate } from "../text/text-template.js";
import { toPredictions } from "./metrics.js";

/** The columns of TextAttack's attack log, so that its users' scripts read ours. */
const columns = [
  "original_text",
  "perturbed_text",
  "original_score",
  "perturbed_score",
  "original_output",
  "perturbed_output",
  "ground_truth_output",
  "num_queries",
  "result_type",
] as const;

const resultTypes = { skipped: "Skipped", success: "Successful", failed: "Failed" } as const;

/** A journal in TextAttack's log columns, line by line: changed words in [[ ]], fields and line breaks as <SPLIT>. */
export async function* formatJournalCsv(path: string): AsyncGenerator<string> {
  yield `${columns.map(quoteCsv).join(",")}\n`;
  for await (const { result } of readJournal(path)) yield `${formatRow(result).map(formatCell).join(",")}\n`;
}

function formatRow(result: AttackResult): (string | number)[] {
  const { words, final, before, after, label } = result;
  const changed = new Set(result.edits.map(({ position }) => position));
  const fields = result.fieldSizes.flatMap((size, field) => new Array<number>(size).fill(field));
  const template = createTextTemplate(result.texts, words, fields);
  const marked = (list: readonly string[]) =>
    template
      .render(list.map((word, i) => (changed.has(i) ? `[[${word}]]` : word)))
      .join("<SPLIT>")
      .replaceAll("\n", "<SPLIT>");
  const [first, last] = toPredictions([before, after]);
  // Its score is the goal's: how far the gold label's probability has fallen from 1.
  const score = (probabilities: readonly number[]) => Math.round(1e6 * (1 - probabilities[label]!)) / 1e6;
  return [
    marked(words),
    marked(final),
    score(before),
    score(after),
    first!,
    last!,
    label,
    result.queries,
    resultTypes[result.outcome],
  ];
}

function formatCell(value: string | number): string {
  return typeof value === "number" ? String(value) : quoteCsv(value);
}

function quoteCsv(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
