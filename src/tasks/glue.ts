import { join } from "node:path";
import type { BuiltInTask } from "./built-in-task.js";
import { readExamples } from "./parse-examples.js";

interface GlueDataset
  extends Pick<BuiltInTask, "fields" | "labels" | "modifiableFields" | "metrics" | "hasBrokenRows"> {
  readonly folder: string;
  readonly columns: readonly string[];
  /** The values in the label column, in the order of the labels. */
  readonly values: readonly string[];
  /** The text columns of the Parquet files on the hub, and of AdvGLUE. Default: those of GLUE's files. */
  readonly hubTexts?: readonly string[];
  /** The suffix of one of two dev sets: dev_matched.tsv, and validation_matched on the hub. */
  readonly devSuffix?: string;
}

const glueNames = ["sst2", "rte", "qnli", "qqp", "mnli", "mnli-mm"] as const;

export type GlueName = (typeof glueNames)[number];

const entailment = ["entailment", "not_entailment"];
const nli = ["entailment", "neutral", "contradiction"];

const mnli: GlueDataset = {
  folder: "MNLI",
  fields: ["premise", "hypothesis"],
  labels: nli,
  columns: ["sentence1", "sentence2", "gold_label"],
  values: nli,
  hubTexts: ["premise", "hypothesis"],
  modifiableFields: [1],
  devSuffix: "_matched",
};

export const glueDatasets: Readonly<Record<GlueName, GlueDataset>> = {
  sst2: {
    folder: "SST-2",
    fields: ["sentence"],
    labels: ["negative", "positive"],
    columns: ["sentence", "label"],
    values: ["0", "1"],
  },
  rte: {
    folder: "RTE",
    fields: ["premise", "hypothesis"],
    labels: entailment,
    columns: ["sentence1", "sentence2", "label"],
    values: entailment,
    modifiableFields: [1],
  },
  qnli: {
    folder: "QNLI",
    fields: ["question", "sentence"],
    labels: entailment,
    columns: ["question", "sentence", "label"],
    values: entailment,
  },
  qqp: {
    folder: "QQP",
    fields: ["question1", "question2"],
    labels: ["not_duplicate", "duplicate"],
    columns: ["question1", "question2", "is_duplicate"],
    values: ["0", "1"],
    metrics: ["accuracy", "f1"],
    hasBrokenRows: true,
  },
  mnli,
  "mnli-mm": { ...mnli, devSuffix: "_mismatched" },
};

/** The text columns of a task in the files of the hub and of AdvGLUE. */
export function getHubTexts(name: GlueName): readonly string[] {
  const { hubTexts, columns } = glueDatasets[name];
  return hubTexts ?? columns.slice(0, -1);
}

/** The GLUE tasks. The labels of GLUE's test set are secret, so the dev set is the test split. */
export const glueTasks: readonly BuiltInTask[] = glueNames.map((name) => {
  const { folder, columns, values, devSuffix = "", ...dataset } = glueDatasets[name];
  const getFile = (split: string): string => `${split}${split === "dev" ? devSuffix : ""}.tsv`;
  const mapping = { texts: columns.slice(0, -1), label: columns.at(-1)!, values };
  return {
    ...dataset,
    name,
    benchmark: "GLUE",
    splits: ["train", "validation"],
    names: { validation: "dev" },
    folders: [folder, join("glue", folder), join("GLUE", folder)],
    markerFiles: ["train.tsv"],
    instructions: `Expected ${folder}/train.tsv and ${folder}/${getFile("dev")} of GLUE (from gluebenchmark.com/tasks).`,
    hub: {
      repository: "nyu-mll/glue",
      folder: folder.replace("-", "").toLowerCase(),
      texts: getHubTexts(name),
      splits: { validation: [`validation${devSuffix}`] },
    },
    read: (path, split, options) => readExamples(join(path, getFile(split)), mapping, options),
  };
});
