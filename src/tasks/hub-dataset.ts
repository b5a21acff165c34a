import { posix } from "node:path";
import { UserError } from "../base/errors.js";
import type { HubFile } from "../hub/hub-cache.js";
import type { DataRow, DataTable } from "./data-table.js";
import type { Example } from "./example.js";
import {
  type DatasetRepository,
  describeMissingPart,
  type HubReadOptions,
  openDatasetRepository,
} from "./hub-repository.js";
import { type ColumnMapping, parseExamples } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import type { DatasetSource } from "./task.js";

/** Where a built-in task is on the Hugging Face Hub, as Parquet files. */
export interface HubLocation {
  /** OWNER/NAME of the dataset. */
  readonly repository: string;
  /** The folder of the configuration, if the repository has several. */
  readonly folder?: string;
  /** The names of its splits there. */
  readonly splits: readonly string[];
  /** Texts and label in the files. Labels are integers in the order of `labels`. */
  readonly texts: readonly string[];
  readonly labels: readonly string[];
  readonly clean?: ColumnMapping["clean"];
}

/** A built-in task on the hub at one commit. */
export interface HubDataset {
  readonly source: DatasetSource;
  /** Downloads the files of a split unless they are cached, and reads them. */
  read(split: string): Promise<Example[]>;
}

/** Opens a built-in task on the hub. Nothing is downloaded before a split is read. */
export async function openHubDataset(
  name: string,
  location: HubLocation,
  options: HubReadOptions,
): Promise<HubDataset> {
  const repository = await openDatasetRepository(name, location.repository, options);
  return {
    source: {
      repository: repository.repository,
      revision: repository.revision,
      async listFiles() {
        const files = await repository.list();
        return location.splits.flatMap((split) => selectSplit(files, location, split));
      },
    },
    async read(split) {
      const table = await readSplit(repository, location, split);
      checkClassNames(table, location);
      const { texts, labels, clean } = location;
      const values = labels.map((_, index) => String(index));
      // Rows without a label are those whose annotators did not agree (SNLI), or secret ones.
      const rows = table.rows.filter((row) => String(row.values[labelColumn]) !== "-1");
      const columns = { texts, label: labelColumn, values, ...(clean && { clean }) };
      return parseExamples({ ...table, rows }, columns, options, split);
    },
  };
}

/** Every dataset of the built-in tasks has its label in this column. */
const labelColumn = "label";

async function readSplit(repository: DatasetRepository, location: HubLocation, split: string): Promise<DataTable> {
  const files = selectSplit(await repository.list(), location, split);
  if (files.length === 0) throw new UserError(describeMissingPart(repository, `split ${split}`));
  const tables: DataTable[] = [];
  for (const path of await repository.download(files)) tables.push(await readTable(path));
  // A split may have several files. Its rows are counted through.
  const rows = tables.flatMap((table) => table.rows).map((row, index): DataRow => ({ ...row, at: index + 1 }));
  return { ...tables[0]!, rows };
}

/** The files of a split: train.parquet, or train-00000-of-00002.parquet and so on. */
function selectSplit(files: readonly HubFile[], { folder }: HubLocation, split: string): HubFile[] {
  const isPart = (path: string): boolean => {
    const name = posix.basename(path, ".parquet");
    return path.endsWith(".parquet") && (name === split || name.startsWith(`${split}-`));
  };
  return files.filter(({ path }) => isPart(path) && (folder === undefined || posix.dirname(path) === folder));
}

/** A dataset whose labels were reordered must not be read with the old order. */
function checkClassNames({ file, classNames }: DataTable, { labels }: HubLocation): void {
  const found = classNames?.[labelColumn];
  if (found === undefined || (found.length === labels.length && labels.every((name, i) => name.startsWith(found[i]!))))
    return;
  throw new UserError(
    `${file}: expected the labels ${labels.join(", ")}, found ${found.join(", ")}. Pass another revision.`,
  );
}
