/** One labelled text or pair of texts. */
export interface Example {
  /** Stable within its data set (file and line, or the set's own id): it seeds the example's random streams and names it in journals. */
  readonly id: string;
  /** One text, or two for a pair task. */
  readonly texts: readonly string[];
  /** Index into the task's labels. */
  readonly label: number;
}

export type Split = "train" | "select" | "dev" | "test";

/** What a data set is: where its texts lie, what its labels are called, which fields an attack may change. */
export interface Task {
  readonly name: string;
  /** In the task's own order: a label's index is what the model is trained on. */
  readonly labels: readonly string[];
  /** Names of the text fields, one or two. */
  readonly fields: readonly string[];
  /** Indices of the fields whose words may be substituted (SNLI: the hypothesis only). */
  readonly modifiableFields: readonly number[];
  /** Metrics reported for it, the first one decides where none is named. */
  readonly metrics: readonly string[];
  /** The splits that it has. Where dev only reports (GLUE), `select` is cut from train, and train comes without it. */
  readonly splits: readonly Split[];
  /** Which split selects (early stopping, grid search) and which one reports; never the same. */
  readonly selectSplit: Split;
  readonly reportSplit: Split;
  /** Reads a split; the order is the file's. */
  load(split: Split): Promise<Example[]>;
}
