import { join } from "node:path";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask } from "./make-task.js";
import { type ColumnMapping, parseExamples, type ReadOptions } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import type { Task } from "./task.js";

interface GlueSet {
  readonly folder: string;
  readonly fields: readonly string[];
  readonly labels: readonly string[];
  readonly layout: ColumnMapping;
  readonly modifiableFields?: readonly number[];
  readonly metrics?: readonly string[];
  /** Where it is not dev.tsv. */
  readonly devFile?: string;
  /** Rows that are known to be broken in the set as published are left out, with a notice. */
  readonly brokenAsPublished?: boolean;
}

const entailment = ["entailment", "not_entailment"];
const nli = ["entailment", "neutral", "contradiction"];

const mnli: GlueSet = {
  folder: "MNLI",
  fields: ["premise", "hypothesis"],
  labels: nli,
  layout: { texts: ["sentence1", "sentence2"], label: "gold_label", values: nli },
  modifiableFields: [1],
  devFile: "dev_matched.tsv",
};

/** GLUE's sets in their own TSV layout, with GLUE's order of labels. */
export const glueSets = {
  sst2: {
    folder: "SST-2",
    fields: ["sentence"],
    labels: ["negative", "positive"],
    layout: { texts: ["sentence"], label: "label", values: ["0", "1"] },
  },
  rte: {
    folder: "RTE",
    fields: ["premise", "hypothesis"],
    labels: entailment,
    layout: { texts: ["sentence1", "sentence2"], label: "label", values: entailment },
    modifiableFields: [1],
  },
  qnli: {
    folder: "QNLI",
    fields: ["question", "sentence"],
    labels: entailment,
    layout: { texts: ["question", "sentence"], label: "label", values: entailment },
  },
  qqp: {
    folder: "QQP",
    fields: ["question1", "question2"],
    labels: ["not_duplicate", "duplicate"],
    layout: { texts: ["question1", "question2"], label: "is_duplicate", values: ["0", "1"] },
    metrics: ["accuracy", "f1"],
    brokenAsPublished: true,
  },
  mnli,
  "mnli-mm": { ...mnli, devFile: "dev_mismatched.tsv" },
} as const satisfies Record<string, GlueSet>;

export type GlueName = keyof typeof glueSets;

export const glueNames = Object.keys(glueSets) as GlueName[];

/** Opens a GLUE task. Its dev split only reports: `select` is cut from train. */
export async function loadGlueTask(name: GlueName, data: string | undefined, options: ReadOptions): Promise<Task> {
  const set: GlueSet = glueSets[name];
  const folder = await findDatasetFolder(
    {
      name,
      folders: [set.folder, join("glue", set.folder), join("GLUE", set.folder)],
      markerFiles: ["train.tsv"],
      instructions: `Expected GLUE's own layout, ${set.folder}/train.tsv and ${set.folder}/${set.devFile ?? "dev.tsv"} (from gluebenchmark.com/tasks).`,
    },
    data,
  );
  const reading = set.brokenAsPublished ? { ...options, skipBadRows: true } : options;
  const read = async (file: string) => parseExamples(await readTable(join(folder, file)), set.layout, reading, file);
  return createTask({
    name,
    labels: set.labels,
    fields: set.fields,
    ...(set.modifiableFields && { modifiableFields: set.modifiableFields }),
    ...(set.metrics && { metrics: set.metrics }),
    read: { train: () => read("train.tsv"), dev: () => read(set.devFile ?? "dev.tsv") },
  });
}
