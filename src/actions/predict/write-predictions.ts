import { extname, resolve } from "node:path";
import { UserError } from "../../base/errors.js";
import { escapeFormula } from "../../base/escape.js";
import { replaceFile } from "../../base/files.js";
import type { TextInput } from "../../text/read-inputs.js";
import type { Prediction } from "./text-classifier.js";

export type InputPrediction = Prediction & { readonly input: TextInput };

const separators: Readonly<Record<string, string>> = { ".csv": ",", ".tsv": "\t" };
const extensions: readonly string[] = [...Object.keys(separators), ".jsonl"];

export function checkPredictionsPath(path: string, input?: string): void {
  if (input !== undefined && resolve(path) === resolve(input))
    throw new UserError(`--out ${path}: this is the input. Choose another file.`);
  if (!extensions.includes(extname(path).toLowerCase()))
    throw new UserError(`--out ${path}: expected a file that ends in ${extensions.join(", ")}.`);
}

export async function writePredictions(
  path: string,
  predictions: AsyncIterable<InputPrediction>,
  onRow?: () => void,
): Promise<void> {
  checkPredictionsPath(path);
  const separator = separators[extname(path).toLowerCase()];
  await replaceFile(path, async (file) => {
    let columns: string[] | null = null;
    for await (const prediction of predictions) {
      const row = toRow(prediction);
      if (separator === undefined) await file.appendFile(`${JSON.stringify(row, replaceIntegers)}\n`);
      else {
        if (columns === null) await file.appendFile(formatLine(Object.keys(row), separator));
        columns ??= Object.keys(row);
        const cells: unknown[] = columns.map((column) => row[column]);
        await file.appendFile(formatLine(cells, separator));
      }
      onRow?.();
    }
  });
}

/** More digits depend on the other texts of the batch. */
export function roundProbability(value: number): number {
  return Number(value.toPrecision(6));
}

function toRow({ input, label, probabilities }: InputPrediction): Readonly<Record<string, unknown>> {
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

function formatLine(cells: readonly unknown[], separator: string): string {
  return `${cells.map((cell) => formatCell(cell, separator)).join(separator)}\n`;
}

/** Tabs and line breaks cannot be written in a TSV file, which has no quotes. */
function formatCell(value: unknown, separator: string): string {
  const text = escapeFormula(formatValue(value));
  if (separator === "\t") return text.replace(/[\t\r\n]+/g, " ");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Formats a value as text. Parquet has dates, and integers that JSON cannot write. */
function formatValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "" : value.toISOString();
  return typeof value === "object" ? JSON.stringify(value, replaceIntegers) : String(value);
}

/** For JSON.stringify: integers of 64 bits as numbers, or as text if they are too large. */
function replaceIntegers(_key: string, value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}
