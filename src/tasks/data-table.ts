export interface DataRow {
  /** Its line (or row) number, from 1. */
  readonly at: number;
  readonly values: Readonly<Record<string, unknown>>;
  readonly problem?: string;
}

export interface DataTable {
  readonly file: string;
  readonly columns: readonly string[];
  readonly unit: "line" | "row";
  readonly rows: readonly DataRow[];
  /** Names of integer classes by column, from the Parquet of Hugging Face datasets. */
  readonly classNames?: Readonly<Record<string, readonly string[]>>;
}
