import { join } from "node:path";
import { findDataset } from "./find-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";
import { type ColumnMapping, readExamples } from "./parse-examples.js";
import { createTask, type Task } from "./task.js";

interface GlueDataset {
  readonly folder: string;
  readonly fields: readonly string[];
  readonly labels: readonly string[];
  readonly columns: ColumnMapping;
  /** The text columns of the Parquet files on the hub, and of AdvGLUE. Default: `columns.texts`. */
  readonly hubTexts?: readonly string[];
  readonly modifiableFields?: readonly number[];
  readonly metrics?: readonly string[];
  /** Default: dev.tsv. */
  readonly devFile?: string;
  /** The published files contain broken rows. Skip them with a warning. */
  readonly hasBrokenRows?: boolean;
}

/** The GLUE tasks. */
export const glueNames = ["sst2", "rte", "qnli", "qqp", "mnli", "mnli-mm"] as const;

/** The name of a GLUE task. */
export type GlueName = (typeof glueNames)[number];

const entailment = ["entailment", "not_entailment"];
const nli = ["entailment", "neutral", "contradiction"];

const mnli: GlueDataset = {
  folder: "MNLI",
  fields: ["premise", "hypothesis"],
  labels: nli,
  columns: { texts: ["sentence1", "sentence2"], label: "gold_label", values: nli },
  hubTexts: ["premise", "hypothesis"],
  modifiableFields: [1],
  devFile: "dev_matched.tsv",
};

/** The GLUE datasets in their original TSV format, with the labels in GLUE's order. */
export const glueDatasets: Record<GlueName, GlueDataset> = {
  sst2: {
    folder: "SST-2",
    fields: ["sentence"],
    labels: ["negative", "positive"],
    columns: { texts: ["sentence"], label: "label", values: ["0", "1"] },
  },
  rte: {
    folder: "RTE",
    fields: ["premise", "hypothesis"],
    labels: entailment,
    columns: { texts: ["sentence1", "sentence2"], label: "label", values: entailment },
    modifiableFields: [1],
  },
  qnli: {
    folder: "QNLI",
    fields: ["question", "sentence"],
    labels: entailment,
    columns: { texts: ["question", "sentence"], label: "label", values: entailment },
  },
  qqp: {
    folder: "QQP",
    fields: ["question1", "question2"],
    labels: ["not_duplicate", "duplicate"],
    columns: { texts: ["question1", "question2"], label: "is_duplicate", values: ["0", "1"] },
    metrics: ["accuracy", "f1"],
    hasBrokenRows: true,
  },
  mnli,
  "mnli-mm": { ...mnli, devFile: "dev_mismatched.tsv" },
};

/** The text columns of a task in the files of the hub and of AdvGLUE. */
export function getHubTexts(name: GlueName): readonly string[] {
  const { hubTexts, columns } = glueDatasets[name];
  return hubTexts ?? columns.texts;
}

/**
 * Loads a GLUE task. The labels of GLUE's test set are secret, so the dev set is the test split.
 */
export async function loadGlueTask(name: GlueName, data: string | undefined, options: HubReadOptions): Promise<Task> {
  const { folder, columns, devFile = "dev.tsv", hasBrokenRows, ...dataset } = glueDatasets[name];
  const readOptions = hasBrokenRows ? { ...options, skipBadRows: true } : options;
  const hubDev = devFile.replace("dev", "validation").replace(".tsv", "");
  const found = await findDataset(
    {
      name,
      folders: [folder, join("glue", folder), join("GLUE", folder)],
      markerFiles: ["train.tsv"],
      instructions: `Expected ${folder}/train.tsv and ${folder}/${devFile} of GLUE (from gluebenchmark.com/tasks).`,
      hub: {
        repository: "nyu-mll/glue",
        folder: folder.replace("-", "").toLowerCase(),
        splits: ["train", hubDev],
        texts: getHubTexts(name),
        labels: dataset.labels,
      },
    },
    data,
    readOptions,
  );
  const read = (file: string, split: string) => () =>
    found.hub ? found.hub.read(split) : readExamples(join(found.folder, file), columns, readOptions);
  return createTask({
    ...dataset,
    name,
    benchmark: "GLUE",
    read: { train: read("train.tsv", "train"), validation: read(devFile, hubDev) },
    names: { validation: "dev" },
    source: found.hub?.source,
  });
}
