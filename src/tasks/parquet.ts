import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { getErrorMessage, UserError } from "../errors.js";
import type { DataTable } from "./read-table.js";

/** Reads a Parquet file whole. */
export async function readParquet(path: string): Promise<DataTable> {
  let file: AsyncBuffer;
  let metadata: FileMetaData;
  let records: Record<string, unknown>[];
  try {
    file = await asyncBufferFromFile(path);
    metadata = await parquetMetadataAsync(file);
    records = await parquetReadObjects({ file, metadata, compressors });
  } catch (error) {
    throw new UserError(`cannot read ${path} as Parquet: ${getErrorMessage(error)}`);
  }
  const rows = records.map((values, index) => ({ at: index + 1, values }));
  return {
    file: path,
    columns: listTopLevelColumns(metadata),
    unit: "row",
    rows,
    classNames: readClassNames(metadata),
  };
}

/** The schema lists the whole tree depth first: skip over the descendants of each column. */
function listTopLevelColumns(metadata: FileMetaData): string[] {
  const columns: string[] = [];
  let inside = 0;
  for (const element of metadata.schema.slice(1)) {
    if (inside === 0) columns.push(element.name);
    else inside--;
    inside += element.num_children ?? 0;
  }
  return columns;
}

/** The datasets library keeps its own description, with the names of class labels, beside the schema. */
function readClassNames(metadata: FileMetaData): Record<string, readonly string[]> {
  const text = metadata.key_value_metadata?.find((entry) => entry.key === "huggingface")?.value;
  if (text === undefined) return {};
  const description = JSON.parse(text) as { info?: { features?: Record<string, { names?: unknown; _type?: string }> } };
  const features = Object.entries(description.info?.features ?? {});
  return Object.fromEntries(
    features.flatMap(([column, feature]) =>
      feature._type === "ClassLabel" && Array.isArray(feature.names) ? [[column, feature.names.map(String)]] : [],
    ),
  );
}
