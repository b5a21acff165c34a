import { readJournal } from "../attacks/journal.js";
import { type AttackResult, findNewWords, getWordFields } from "../attacks/result.js";
import { escapeFormula } from "../base/escape.js";
import { createTextTemplate, type TextTemplate } from "../text/text-template.js";
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
  const { texts, words, fieldSizes, finalTexts, finalWords, finalFieldSizes } = result;
  const { before, after, label, queries, outcome } = result;
  const changed = new Set(result.edits.filter(({ from }) => from !== "").map(({ position }) => position));
  const mark = (template: TextTemplate, list: readonly string[], isMarked: (i: number) => boolean): string =>
    template
      .render(list.map((word, i) => (isMarked(i) ? `[[${word}]]` : word)))
      .join("<SPLIT>")
      .replaceAll("\n", "<SPLIT>");
  const original = mark(createTextTemplate(texts, words, getWordFields(fieldSizes)), words, (i) => changed.has(i));
  const isNew = findNewWords(result);
  const finalTemplate = createTextTemplate(finalTexts, finalWords, getWordFields(finalFieldSizes));
  const perturbed = mark(finalTemplate, finalWords, (i) => isNew[i]!);
  // TextAttack's score is 1 minus the gold label's probability.
  const score = (probabilities: readonly number[]) => Math.round(1e6 * (1 - probabilities[label]!)) / 1e6;
  const predictions = toPredictions([before, after]);
  const scores = [score(before), score(after)];
  const type = result.goal === "input-reduction" && outcome === "failed" ? "Maximized" : resultTypes[outcome];
  return [original, perturbed, ...scores, ...predictions, label, queries, type];
}

function formatLine(cells: readonly (string | number)[]): string {
  const quote = (text: string) => `"${escapeFormula(text).replaceAll('"', '""')}"`;
  return `${cells.map((cell) => (typeof cell === "number" ? String(cell) : quote(cell))).join(",")}\n`;
}
