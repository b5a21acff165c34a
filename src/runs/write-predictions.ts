import { extname } from "node:path";
import { UserError } from "../errors.js";
import { replaceFile } from "../files.js";
import type { TextInput } from "../text/read-inputs.js";
import type { Prediction } from "./text-classifier.js";

/** A text with its prediction. */
export type InputPrediction = Prediction & { readonly input: TextInput };

const separators: Readonly<Record<string, string | null>> = { ".csv": ",", ".tsv": "\t", ".jsonl": null };

/** Rejects an extension that predictions cannot be written in. */
export function checkPredictionsPath(path: string): void {
  if (!(extname(path).toLowerCase() in separators))
    throw new UserError(`--out ${path}: expected a file that ends in ${Object.keys(separators).join(", ")}.`);
}

/**
 * Writes predictions as a table: the columns of the input, then the predicted label, its
 * probability and the probabilities of all labels. The file appears when it is complete.
 */
export async function writePredictions(
  path: string,
  predictions: AsyncIterable<InputPrediction>,
  onRow?: () => void,
): Promise<void> {
  checkPredictionsPath(path);
  const separator = separators[extname(path).toLowerCase()]!;
  await replaceFile(path, async (file) => {
    let columns: string[] | null = null;
    for await (const prediction of predictions) {
      const row = toRow(prediction);
      if (separator === null) await file.appendFile(`${JSON.stringify(row)}\n`);
      else {
        if (columns === null) {
          columns = Object.keys(row);
          await file.appendFile(`${columns.map((column) => formatCell(column, separator)).join(separator)}\n`);
        }
        const cells = columns.map((column) => formatCell(row[column], separator));
        await file.appendFile(`${cells.join(separator)}\n`);
      }
      onRow?.();
    }
  });
}

/** More digits depend on the other texts of the batch. */
export function roundProbability(value: number): number {
  return Number(value.toPrecision(6));
}

function toRow({ input, label, probabilities }: InputPrediction): Record<string, unknown> {
  const { texts, row } = input;
  const before = row ?? (texts.length === 1 ? { text: texts[0] } : { sentence1: texts[0], sentence2: texts[1] });
  const all = Object.entries(probabilities).map(([name, value]) => [`probability_${name}`, roundProbability(value)]);
  return {
    ...before,
    predicted: label,
    probability: roundProbability(probabilities[label] ?? 0),
    ...Object.fromEntries(all),
  };
}

/** Tabs and line breaks cannot be written in a TSV file, which has no quotes. */
function formatCell(value: unknown, separator: string): string {
  const text =
    value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : `${value}`;
  if (separator === "\t") return text.replace(/[\t\r\n]+/g, " ");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
