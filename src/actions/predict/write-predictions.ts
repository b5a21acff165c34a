import { extname, resolve } from "node:path";
import { UserError } from "../../base/errors.js";
import { escapeFormula } from "../../base/escape.js";
import { replaceFile, writeFileAtomic } from "../../base/files.js";
import { encodeParquet, formatValue, replaceIntegers } from "../../tasks/write-parquet.js";
import type { TextInput } from "../../text/read-inputs.js";
import type { Prediction } from "./text-classifier.js";

/** A text with its prediction. */
export type InputPrediction = Prediction & { readonly input: TextInput };

const separators: Readonly<Record<string, string>> = { ".csv": ",", ".tsv": "\t" };
const extensions: readonly string[] = [...Object.keys(separators), ".jsonl", ".parquet"];

/** Rejects the file of the input, and an extension that predictions cannot be written in. */
export function checkPredictionsPath(path: string, input?: string): void {
  if (input !== undefined && resolve(path) === resolve(input))
    throw new UserError(`--out ${path}: this is the input. Choose another file.`);
  if (!extensions.includes(extname(path).toLowerCase()))
    throw new UserError(`--out ${path}: expected a file that ends in ${extensions.join(", ")}.`);
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
  const extension = extname(path).toLowerCase();
  const rows = toRows(predictions, onRow);
  if (extension === ".parquet") await writeFileAtomic(path, await encodeParquet(await collect(rows)));
  else await writeLines(path, rows, separators[extension]);
}

/** Writes rows line by line: as JSON, or as cells with a separator. */
async function writeLines(path: string, rows: AsyncIterable<PredictionRow>, separator?: string): Promise<void> {
  await replaceFile(path, async (file) => {
    let columns: string[] | null = null;
    for await (const row of rows) {
      if (separator === undefined) {
        await file.appendFile(`${JSON.stringify(row, replaceIntegers)}\n`);
        continue;
      }
      if (columns === null) {
        columns = Object.keys(row);
        await file.appendFile(`${columns.map((column) => formatCell(column, separator)).join(separator)}\n`);
      }
      const cells = columns.map((column) => formatCell(row[column], separator));
      await file.appendFile(`${cells.join(separator)}\n`);
    }
  });
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** More digits depend on the other texts of the batch. */
export function roundProbability(value: number): number {
  return Number(value.toPrecision(6));
}

type PredictionRow = Readonly<Record<string, unknown>>;

async function* toRows(
  predictions: AsyncIterable<InputPrediction>,
  onRow: (() => void) | undefined,
): AsyncGenerator<PredictionRow> {
  for await (const prediction of predictions) {
    yield toRow(prediction);
    onRow?.();
  }
}

function toRow({ input, label, probabilities }: InputPrediction): PredictionRow {
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
  const text = escapeFormula(formatValue(value));
  if (separator === "\t") return text.replace(/[\t\r\n]+/g, " ");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
