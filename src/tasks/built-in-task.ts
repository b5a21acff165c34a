import { posix } from "node:path";
import { UserError } from "../base/errors.js";
import type { HubFile } from "../hub/hub-cache.js";
import type { DataTable } from "./data-table.js";
import type { Example } from "./example.js";
import { createNotFoundError, type DatasetLocation, findDatasetFolder, passFolder } from "./find-dataset.js";
import {
  type DatasetRepository,
  describeMissingPart,
  type HubReadOptions,
  openDatasetRepository,
} from "./hub-repository.js";
import { type ColumnMapping, parseExamples, type ReadOptions } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import { createTask, type Split, type Task, type TaskSource } from "./task.js";

export interface BuiltInTask extends DatasetLocation, Omit<TaskSource, "read" | "source"> {
  readonly splits: readonly Split[];
  /** Undefined if the dataset is not on the hub. */
  readonly hub?: {
    readonly repository: string;
    readonly folder?: string;
    /** The text columns. The column `label` has integers in the order of the labels. */
    readonly texts: readonly string[];
    readonly clean?: ColumnMapping["clean"];
    /** The names of a split there, if they differ. The hub may have cut it into several. */
    readonly splits?: Readonly<Partial<Record<Split, readonly string[]>>>;
    /** Changes the examples of a split, so that they equal those of the original files. */
    readonly restore?: (examples: readonly Example[]) => Example[];
  };
  /** True if `--data` may be this file itself instead of its folder. */
  readonly acceptsFile?: (path: string) => boolean;
  readonly hasBrokenRows?: boolean;
  /** Reads a split, by the name that the dataset uses, from the folder (or the file). */
  read(folder: string, split: string, options: ReadOptions): Promise<Example[]>;
}

/** Loads a built-in task: from the given folder, else from a data root, else from the hub. */
export async function loadBuiltInTask(
  definition: BuiltInTask,
  data: string | undefined,
  options: HubReadOptions,
): Promise<Task> {
  const { name, splits, names = {}, hub, acceptsFile } = definition;
  const { revision } = options;
  if (revision !== undefined && data !== undefined)
    throw new UserError(
      `${name}@${revision}: a revision is on the Hugging Face Hub, but --data is ${data}. Leave one of them out.`,
    );
  const folder =
    data !== undefined && acceptsFile?.(data)
      ? data
      : revision === undefined
        ? await findDatasetFolder(definition, data)
        : null;
  const readOptions = definition.hasBrokenRows ? { ...options, skipBadRows: true } : options;
  const createFrom = (readSplit: (split: Split) => Promise<Example[]>, source?: Task["source"]): Task =>
    createTask({
      ...definition,
      read: Object.fromEntries(splits.map((split) => [split, () => readSplit(split)])),
      source,
    });
  if (folder !== null) return createFrom((split) => definition.read(folder, names[split] ?? split, readOptions));
  if (data !== undefined || hub === undefined) throw createNotFoundError(definition, data);
  const repository = await openDatasetRepository(name, hub.repository, options).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    const otherwise = `Or get the files yourself: ${definition.instructions} ${passFolder}`;
    throw new UserError(`${name}: ${error.message}\n${otherwise}`, { cause: error });
  });
  const listParts = (split: Split): readonly string[] => hub.splits?.[split] ?? [split];
  return createFrom(
    async (split) => {
      const examples: Example[] = [];
      for (const part of listParts(split))
        examples.push(...(await readPart(repository, hub, definition.labels, part, readOptions)));
      return hub.restore?.(examples) ?? examples;
    },
    {
      repository: repository.repository,
      revision: repository.revision,
      async listFiles() {
        const files = await repository.list();
        return splits.flatMap(listParts).flatMap((part) => selectFiles(files, hub, part));
      },
    },
  );
}

/** Every dataset of the built-in tasks has its label in this column on the hub. */
const labelColumn = "label";

async function readPart(
  repository: DatasetRepository,
  hub: NonNullable<BuiltInTask["hub"]>,
  labels: readonly string[],
  part: string,
  options: ReadOptions,
): Promise<Example[]> {
  const files = selectFiles(await repository.list(), hub, part);
  if (files.length === 0) throw new UserError(describeMissingPart(repository, `split ${part}`));
  const tables: DataTable[] = [];
  for (const path of await repository.download(files)) tables.push(await readTable(path));
  const [first] = tables as [DataTable];
  checkClassNames(first, labels);
  // The rows of several files are counted through.
  const rows = tables
    .flatMap((table) => table.rows)
    .map((row, index) => ({ ...row, at: index + 1 }))
    // Rows without a label are those whose annotators did not agree (SNLI), or secret ones.
    .filter((row) => String(row.values[labelColumn]) !== "-1");
  const values = labels.map((_, index) => String(index));
  const columns = { texts: hub.texts, label: labelColumn, values, ...(hub.clean && { clean: hub.clean }) };
  return parseExamples({ ...first, rows }, columns, options, part);
}

/** The files of a part: train.parquet, or train-00000-of-00002.parquet and so on. */
function selectFiles(files: readonly HubFile[], { folder }: NonNullable<BuiltInTask["hub"]>, part: string): HubFile[] {
  return files.filter(({ path }) => {
    const name = posix.basename(path, ".parquet");
    const isPart = path.endsWith(".parquet") && (name === part || name.startsWith(`${part}-`));
    return isPart && (folder === undefined || posix.dirname(path) === folder);
  });
}

/** A dataset whose labels were reordered must not be read with the old order. */
function checkClassNames({ file, classNames }: DataTable, labels: readonly string[]): void {
  const found = classNames?.[labelColumn];
  if (found === undefined || (found.length === labels.length && labels.every((name, i) => name.startsWith(found[i]!))))
    return;
  throw new UserError(
    `${file}: expected the labels ${labels.join(", ")}, found ${found.join(", ")}. Pass another revision.`,
  );
}
