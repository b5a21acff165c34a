import { readdir, stat } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import { UserError } from "../errors.js";
import { createFileError } from "../files.js";
import { inferColumns, inferLabels } from "./infer-columns.js";
import { createTask, once, type SourceSplit } from "./make-task.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { type DataTable, readTable, tableExtensions } from "./read-table.js";
import type { Example, Task } from "./task.js";

/** How a table of the user's own is read. */
export interface CustomTaskOptions extends ReadOptions {
  readonly text?: readonly string[] | undefined;
  readonly label?: string | undefined;
  /** The labels in their order; where not given, the values of train in theirs. */
  readonly labels?: readonly string[] | undefined;
  /** Takes a single file whole as the test split, not cut: for evaluation. */
  readonly whole?: boolean | undefined;
}

/** Files of one split, in their order. */
export type SplitFiles = Partial<Record<SourceSplit, readonly string[]>>;

/** File names that mean a split, as they are found in the wild. */
const splitNames: Record<SourceSplit, RegExp> = {
  train: /^train(ing)?\b/i,
  dev: /^(dev|val|valid|validation|development)(_matched)?\b/i,
  test: /^test(ing)?\b/i,
};

/** Opens a table of the user's own: one file, or a folder with train, dev (validation) and test files. */
export async function loadCustomTask(data: string, options: CustomTaskOptions): Promise<Task> {
  const name = basename(data, extname(data)) || data;
  const entry = await stat(data).catch((error: unknown) => {
    throw createFileError(error, data, "read");
  });
  if (!entry.isDirectory())
    return createTaskFromFiles(name, options.whole ? { test: [data] } : { train: [data] }, options);
  const files = (await readdir(data)).filter((file) =>
    (tableExtensions as readonly string[]).includes(extname(file).toLowerCase()),
  );
  const splits = groupFilesBySplit(files);
  if (splits.train === undefined && !(options.whole && (splits.dev ?? splits.test))) {
    throw new UserError(
      `${data}: expected a file named train with one of ${tableExtensions.join(", ")}, and dev and test beside it where there are such; ` +
        `found ${files.join(", ") || "no table"}. A single table can be named itself: --data ${join(data, files[0] ?? "reviews.csv")}`,
    );
  }
  const paths = Object.entries(splits).map(([split, names]) => [split, names.map((file) => join(data, file))]);
  return createTaskFromFiles(name, Object.fromEntries(paths) as SplitFiles, options);
}

/** Which files belong to which split, by the start of their names. */
export function groupFilesBySplit(files: readonly string[]): SplitFiles {
  const splits: Partial<Record<SourceSplit, string[]>> = {};
  for (const file of [...files].sort()) {
    const split = (Object.keys(splitNames) as SourceSplit[]).find((candidate) =>
      splitNames[candidate].test(basename(file)),
    );
    if (split === undefined) continue;
    splits[split] ??= [];
    splits[split].push(file);
  }
  return splits;
}

/**
 * A task from the files of its splits. `classNames` are the names of integer labels by column, where something beside the files
 * knows them. A test split without labels, as benchmarks publish it, is left out.
 */
export async function createTaskFromFiles(
  name: string,
  files: SplitFiles,
  options: CustomTaskOptions,
  classNames: Readonly<Record<string, readonly string[]>> = {},
): Promise<Task> {
  const tables = new Map(
    Object.entries(files).map(([split, paths]) => [
      split as SourceSplit,
      once(() => Promise.all(paths.map((path) => readTable(path)))),
    ]),
  );
  const leading = await (tables.get("train") ?? [...tables.values()][0]!)();
  const first = leading[0]!;
  const columns = inferColumns(first, options);
  const { labels, values } = inferLabels(leading, columns.label, {
    labels: options.labels,
    classNames: first.classNames?.[columns.label] ?? classNames[columns.label],
    onWarning: options.onWarning,
  });
  const layout = { texts: columns.texts, label: columns.label, values };
  const read = (split: SourceSplit) => async (): Promise<Example[]> =>
    (await tables.get(split)!()).flatMap((table) => parseExamples(table, layout, options, basename(table.file)));

  const unlabelled =
    tables.has("test") &&
    tables.size > 1 &&
    (await tables.get("test")!()).every((table) => hasNoLabels(table, columns.label));
  if (unlabelled) {
    options.onWarning?.(`${name}: its test split has no labels and is left out`);
    tables.delete("test");
  }
  return createTask({
    name,
    labels,
    fields: columns.texts,
    read: Object.fromEntries([...tables.keys()].map((split) => [split, read(split)])),
    ...(!tables.has("train") && { noTrainReason: "it was opened for evaluation only" }),
  });
}

function hasNoLabels(table: DataTable, label: string): boolean {
  // A row that could not be read may well have one.
  const readable = table.rows.filter((row) => row.problem === undefined);
  return (
    readable.length > 0 &&
    readable.every((row) => ["", "-1", "null", "undefined"].includes(String(row.values[label]).trim()))
  );
}
