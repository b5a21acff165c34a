import { readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { createFileError, writeFileAtomic } from "../base/files.js";
import { validate } from "../base/validate.js";
import type { DataTable } from "./data-table.js";
import type { Example } from "./example.js";
import { type ColumnOptions, chooseColumns, inferLabels } from "./infer-columns.js";
import { parseExamples, type ReadOptions, readCell } from "./parse-examples.js";
import { parseJsonArray, readTable, tableExtensions } from "./read-table.js";
import { createTask, once, type Split, type Task } from "./task.js";

export interface CustomTaskOptions extends ReadOptions, ColumnOptions {
  /** Use a single file or array as the test split, without splitting it. */
  readonly evaluationOnly?: boolean | undefined;
  /** Files of these splits. Default: those in the folder; else they are held out from train. */
  readonly validationData?: string | undefined;
  readonly testData?: string | undefined;
}

export type SplitFiles = Partial<Record<Split, readonly string[]>>;

const fileNames: Record<Split, RegExp> = {
  train: /^train(ing)?\b/i,
  validation: /^(dev|val|valid|validation|development)(_matched)?\b/i,
  test: /^test(ing)?\b/i,
};

/** Loads custom data: one table, or a folder with train, validation (dev) and test tables. */
export async function loadCustomTask(data: string, options: CustomTaskOptions): Promise<Task> {
  const name = formatDataName(data);
  const entry = await stat(data).catch((error: unknown) => {
    throw createFileError(error, data, "read");
  });
  const { evaluationOnly, validationData, testData } = options;
  const named = { ...(validationData && { validation: [validationData] }), ...(testData && { test: [testData] }) };
  if (!entry.isDirectory())
    return createTaskFromFiles(name, { [evaluationOnly ? "test" : "train"]: [data], ...named }, options);
  const files = (await readdir(data)).filter((file) => tableExtensions.includes(extname(file).toLowerCase()));
  const splits: SplitFiles = { ...groupFilesBySplit(files.map((file) => join(data, file))), ...named };
  if (splits.train === undefined && !(evaluationOnly && (splits.validation ?? splits.test))) {
    throw new UserError(
      `${data}: expected a file named train (${tableExtensions.join(", ")}) and optionally validation and test; ` +
        `found ${files.join(", ") || "no table"}. ` +
        `To use a single table, pass its path: --data ${join(data, files[0] ?? "reviews.csv")}`,
    );
  }
  return createTaskFromFiles(name, splits, options);
}

/** Names custom data by its file or folder, and a file named train by its folder. */
export function formatDataName(data: string): string {
  const path = resolve(data);
  const isSplit = extname(path) !== "" && getSplitName(path, "train") === basename(path, extname(path)).toLowerCase();
  const named = isSplit ? dirname(path) : path;
  return basename(named, extname(named)) || basename(path, extname(path)) || data;
}

/** Groups files by split, which the start of a file name tells. Other files are ignored. */
export function groupFilesBySplit(paths: readonly string[]): SplitFiles {
  const sorted = [...paths].sort();
  const entries = (Object.keys(fileNames) as Split[]).map(
    (split) => [split, sorted.filter((path) => getSplitName(path, split) !== undefined)] as const,
  );
  return Object.fromEntries(entries.filter(([, files]) => files.length > 0));
}

/** Returns the start of a file name that means a split, such as `dev`. */
function getSplitName(path: string, split: Split): string | undefined {
  return fileNames[split].exec(basename(path))?.[0].toLowerCase();
}

/** Creates a task from the files of its splits, with the names of integer labels by column. */
export function createTaskFromFiles(
  name: string,
  files: SplitFiles,
  options: CustomTaskOptions,
  classNames: Readonly<Record<string, readonly string[]>> = {},
): Promise<Task> {
  const entries = Object.entries(files) as [Split, readonly string[]][];
  const tables = entries.map(
    ([split, paths]) => [split, once(() => Promise.all(paths.map((path) => readTable(path))))] as const,
  );
  const names = entries.map(([split, paths]) => [split, getSplitName(paths[0]!, split)] as const);
  return createTaskFromTables(name, new Map(tables), { ...options, classNames, names: Object.fromEntries(names) });
}

async function createTaskFromTables(
  name: string,
  tables: Map<Split, () => Promise<readonly DataTable[]>>,
  options: CustomTaskOptions & {
    readonly classNames?: Readonly<Record<string, readonly string[]>>;
    readonly names?: Partial<Record<Split, string | undefined>>;
    /** The prefix of example IDs. Default: the file name. */
    readonly origin?: string;
  },
): Promise<Task> {
  const leading = await (tables.get("train") ?? [...tables.values()][0]!)();
  const { texts, label } = chooseColumns(leading[0]!, options);
  if (texts.reason !== null || label.reason !== null)
    warn(
      options,
      `${leading[0]!.file}: using ${texts.name.join(" and ")} as text and ${label.name} as label; choose other columns ` +
        "with --text-column and --label-column",
    );
  const columns = { texts: texts.name, label: label.name };
  const classNames = leading[0]!.classNames?.[label.name] ?? options.classNames?.[label.name];
  const { labels, values } = inferLabels(leading, label.name, classNames, options);
  const read = (split: Split) => async (): Promise<Example[]> =>
    (await tables.get(split)!()).flatMap((table) =>
      parseExamples(
        table,
        { ...columns, values, labelMap: options.labelMap },
        options,
        options.origin ?? basename(table.file),
      ),
    );
  // Benchmarks publish test splits without labels.
  const testTables = tables.size > 1 ? await tables.get("test")?.() : undefined;
  if (testTables?.every((table) => hasNoLabels(table, columns.label))) {
    warn(options, `${name}: ignoring the test split because it has no labels`);
    tables.delete("test");
  }
  return createTask({
    name,
    labels,
    fields: columns.texts,
    read: Object.fromEntries([...tables.keys()].map((split) => [split, read(split)])),
    names: options.names,
    keepsValidation: options.validationData !== undefined,
    noTrainReason: tables.has("train") ? undefined : "It was loaded for evaluation only.",
  });
}

function hasNoLabels(table: DataTable, label: string): boolean {
  // An unreadable row may have a label.
  const readable = table.rows.filter((row) => row.problem === undefined);
  const isMissing = (value: string | undefined) => value === undefined || ["-1", "null", "undefined"].includes(value);
  return readable.length > 0 && readable.every((row) => isMissing(readCell(row, label)));
}

/**
 * A labeled text, or pair of texts, of a dataset that is passed as an array.
 *
 *     const data: InMemoryExample[] = [{ text: "a quiet film", label: "good" }];
 */
export interface InMemoryExample {
  readonly text: string | readonly [string, string];
  readonly label: string | number;
}

export const examplesSchema = z.array(
  z.object({
    text: z.union([z.string(), z.tuple([z.string(), z.string()])], { error: "expected a text or a pair of texts" }),
    label: z.union([z.string(), z.number()], { error: "expected a string or a number" }),
  }),
);

/** The file name that examples in memory would have on disk. It is part of their IDs. */
const inMemoryFile = "data.jsonl";

/** Loads examples from an array, as if `writeExamplesFile` had written them to data.jsonl. */
export function loadInMemoryTask(examples: readonly InMemoryExample[], options: CustomTaskOptions): Promise<Task> {
  const rows = toRows(examples);
  if (rows.length === 0) throw new UserError("data: the array is empty. Expected at least one example.");
  const textColumn = Object.keys(rows[0]!).filter((column) => column !== "label");
  const table = parseJsonArray("data", rows);
  return createTaskFromTables(
    basename(inMemoryFile, extname(inMemoryFile)),
    new Map([[options.evaluationOnly ? "test" : "train", async () => [table]]]),
    { ...options, textColumn, labelColumn: "label", origin: inMemoryFile },
  );
}

/** Writes JSON lines with the columns `text` (or `sentence1` and `sentence2`) and `label`. */
export async function writeExamplesFile(path: string, examples: readonly InMemoryExample[]): Promise<void> {
  await writeFileAtomic(
    path,
    toRows(examples)
      .map((row) => `${JSON.stringify(row)}\n`)
      .join(""),
  );
}

function toRows(examples: readonly InMemoryExample[]): Record<string, string | number>[] {
  const rows = validate(examplesSchema, examples, "data").map(({ text, label }) =>
    typeof text === "string" ? { text, label } : { sentence1: text[0], sentence2: text[1], label },
  );
  const mixed = rows.findIndex((row) => "text" in row !== "text" in rows[0]!);
  if (mixed > 0) throw new UserError(`data[${mixed}] and data[0] differ: expected only texts or only pairs of texts.`);
  return rows;
}
