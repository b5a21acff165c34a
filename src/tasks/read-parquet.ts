import type { FileMetaData, parquetSchema } from "hyparquet";
import { getErrorMessage, UserError } from "../base/errors.js";
import { readBytes } from "../base/files.js";
import type { DataTable } from "./data-table.js";

/** More rows do not fit in memory, and a damaged file can claim any number. */
const maxRows = 50_000_000;

export async function readParquet(path: string): Promise<DataTable> {
  const bytes = await readBytes(path, "the table");
  // Most programs read no Parquet file, and loading its library would delay every start.
  const [library, { compressors }] = await Promise.all([import("hyparquet"), import("hyparquet-compressors")]);
  try {
    // The library reads columns concurrently. From memory, no read can fail while nobody waits.
    const content = new Uint8Array(bytes).buffer;
    const file = {
      byteLength: content.byteLength,
      slice: (start: number, end?: number) => content.slice(start, end),
    };
    const metadata = await library.parquetMetadataAsync(file);
    const columns = checkMetadata(metadata, library.parquetSchema(metadata));
    const records = await library.parquetReadObjects({ file, metadata, compressors });
    if (records.some((record) => columns.some((column) => record[column] === undefined)))
      throw new Error("a column ends early");
    return {
      file: path,
      columns,
      unit: "row",
      rows: records.map((values, index) => ({ at: index + 1, values })),
      classNames: readClassNames(metadata),
    };
  } catch (error) {
    // Errors of other classes come from code of the library that does not expect damage.
    const isExplained = error instanceof Error && error.constructor === Error;
    const reason = isExplained ? getErrorMessage(error) : "its content does not match its structure";
    throw new UserError(
      `Cannot read ${path} as Parquet: ${reason.slice(0, 200)}. The file may be damaged; download it again.`,
      { cause: error },
    );
  }
}

/**
 * Checks what the library takes for granted: every column of a row group is in the schema once. It
 * would otherwise leave a rejected promise behind, which ends the process. Returns the columns.
 */
function checkMetadata(metadata: FileMetaData, tree: ReturnType<typeof parquetSchema>): string[] {
  const leaves = new Set<string>();
  const visit = ({ path, children }: ReturnType<typeof parquetSchema>): void => {
    if (children.length === 0) leaves.add(path.join("\0"));
    children.forEach(visit);
  };
  visit(tree);
  const columns = tree.children.map(({ element }) => element.name);
  if (new Set(columns).size !== columns.length) throw new Error("two columns have the same name");
  let rows = 0;
  for (const group of metadata.row_groups) {
    rows += Number(group.num_rows);
    if (!(Number(group.num_rows) >= 0 && rows <= maxRows)) throw new Error(`invalid number of rows`);
    const found = group.columns.map(({ meta_data: column }) => column?.path_in_schema.join("\0"));
    const isComplete = found.every((path) => path !== undefined && leaves.has(path));
    if (!isComplete || new Set(found).size !== leaves.size || found.length !== leaves.size)
      throw new Error("the columns of a row group are not those of the schema");
  }
  return columns;
}

function readClassNames(metadata: FileMetaData): Record<string, readonly string[]> {
  const text = metadata.key_value_metadata?.find((entry) => entry.key === "huggingface")?.value;
  if (text === undefined) return {};
  const description = JSON.parse(text) as {
    info?: { features?: Record<string, { names?: unknown; _type?: string } | null> };
  } | null;
  const features = Object.entries(description?.info?.features ?? {});
  return Object.fromEntries(
    features.flatMap(([column, feature]) =>
      feature?._type === "ClassLabel" && Array.isArray(feature.names) ? [[column, feature.names.map(String)]] : [],
    ),
  );
}
