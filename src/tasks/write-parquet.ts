/** Encodes rows as Parquet. Mixed values of a column become text. */
export async function encodeParquet(rows: readonly Readonly<Record<string, unknown>>[]): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import("hyparquet-writer");
  const columnData = [...toColumns(rows)].map(([name, values]) => {
    const type = findType(values);
    return { name, type, nullable: true, data: type === "STRING" ? values.map(toText) : [...values] };
  });
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}

function toColumns(rows: readonly Readonly<Record<string, unknown>>[]): ReadonlyMap<string, readonly unknown[]> {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return new Map(names.map((name) => [name, rows.map((row) => row[name] ?? null)]));
}

const typeTests: readonly (readonly [
  "BOOLEAN" | "INT32" | "INT64" | "DOUBLE" | "TIMESTAMP" | "STRING",
  (value: unknown) => boolean,
])[] = [
  ["BOOLEAN", (value) => typeof value === "boolean"],
  ["INT32", (value) => typeof value === "number" && (value | 0) === value],
  ["DOUBLE", (value) => typeof value === "number"],
  ["INT64", (value) => typeof value === "bigint"],
  ["TIMESTAMP", (value) => value instanceof Date],
];

function findType(values: readonly unknown[]): "BOOLEAN" | "INT32" | "INT64" | "DOUBLE" | "TIMESTAMP" | "STRING" {
  const present = values.filter((value) => value !== null);
  if (present.length === 0) return "STRING";
  return typeTests.find(([, isOfType]) => present.every(isOfType))?.[0] ?? "STRING";
}

/** A value as text: objects as JSON, missing values as null. */
function toText(value: unknown): string | null {
  return value === null || typeof value === "string" ? value : formatValue(value);
}

/** Formats a value as text. Parquet has dates, and integers that JSON cannot write. */
export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "" : value.toISOString();
  return typeof value === "object" ? JSON.stringify(value, replaceIntegers) : String(value);
}

/** For JSON.stringify: integers of 64 bits as numbers, or as text if they are too large. */
export function replaceIntegers(_key: string, value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}
