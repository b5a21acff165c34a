import { readJournal } from "../attacks/journal.js";
import { type AttackResult, getWordFields } from "../attacks/result.js";
import { createTextTemplate } from "../text/text-template.js";
import { toPredictions } from "./metrics.js";

/** The columns of TextAttack's attack log, so scripts written for TextAttack can read the file. */
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
];

const resultTypes = { skipped: "Skipped", success: "Successful", failed: "Failed" } as const;

/**
 * Converts a journal to CSV with TextAttack's columns. Changed words are in [[ ]]; <SPLIT>
 * separates fields and lines.
 */
export async function* formatJournalCsv(path: string): AsyncGenerator<string> {
  yield formatLine(columns);
  for await (const { result } of readJournal(path)) yield formatLine(createRow(result));
}

function createRow(result: AttackResult): (string | number)[] {
  const { texts, words, final, before, after, label, queries, outcome } = result;
  const changed = new Set(result.edits.map(({ position }) => position));
  const template = createTextTemplate(texts, words, getWordFields(result));
  const render = (list: readonly string[]) =>
    template
      .render(list.map((word, i) => (changed.has(i) ? `[[${word}]]` : word)))
      .join("<SPLIT>")
      .replaceAll("\n", "<SPLIT>");
  // TextAttack's score is 1 minus the gold label's probability.
  const score = (probabilities: readonly number[]) => Math.round(1e6 * (1 - probabilities[label]!)) / 1e6;
  const predictions = toPredictions([before, after]);
  const scores = [score(before), score(after)];
  return [render(words), render(final), ...scores, ...predictions, label, queries, resultTypes[outcome]];
}

function formatLine(cells: readonly (string | number)[]): string {
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  return `${cells.map((cell) => (typeof cell === "number" ? String(cell) : quote(cell))).join(",")}\n`;
}
