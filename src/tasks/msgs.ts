import { join } from "node:path";
import type { Example } from "./example.js";
import { findDatasetFolder } from "./find-dataset.js";
import { type ReadOptions, readExamples } from "./parse-examples.js";
import { createTask, type Task } from "./task.js";

/** The probes. Each pairs a linguistic feature, named first, with a surface feature. */
export const msgsProbes = [
  "control_raising_length",
  "control_raising_lexical_content_the",
  "syntactic_category_length",
  "syntactic_category_lexical_content_the",
] as const;

/** The name of an MSGS probe. */
export type MsgsProbe = (typeof msgsProbes)[number];

/**
 * - `train`: both features agree, so a model can learn either;
 * - `inoculating`: sentences of train in which the features disagree, to be mixed into train;
 * - `in-domain`: held-out sentences like those of train;
 * - `disambiguating`: the features disagree, so the predictions show which one the model learned;
 * - `control`: another domain in which the features agree.
 */
type MsgsPart = "train" | "inoculating" | "in-domain" | "disambiguating" | "control";

const sources: Record<MsgsPart, { file: string; condition?: string }> = {
  train: { file: "train.jsonl" },
  inoculating: { file: "inoculating.jsonl" },
  "in-domain": { file: "test.jsonl", condition: "training" },
  disambiguating: { file: "test.jsonl", condition: "test" },
  control: { file: "test.jsonl", condition: "control" },
};

const columns = { texts: ["sentence"], label: "linguistic_feature_label", values: ["0", "1"] };

/** Loads one part of a probe, labeled by the linguistic feature. */
export async function loadMsgsPart(
  probe: MsgsProbe,
  part: MsgsPart,
  data: string | undefined,
  options: ReadOptions,
): Promise<Example[]> {
  return readPart(await findProbe(probe, data), part, options);
}

/** Loads a probe as a task: in-domain is the validation split, disambiguating is the test split. */
export async function loadMsgsTask(probe: MsgsProbe, data: string | undefined, options: ReadOptions): Promise<Task> {
  const folder = await findProbe(probe, data);
  return createTask({
    name: `msgs:${probe}`,
    labels: probe.startsWith("control_raising") ? ["raising", "control"] : ["noun", "adjective"],
    fields: ["sentence"],
    metrics: ["matthews", "accuracy"],
    read: {
      train: () => readPart(folder, "train", options),
      validation: () => readPart(folder, "in-domain", options),
      test: () => readPart(folder, "disambiguating", options),
    },
    names: { validation: "in-domain", test: "disambiguating" },
  });
}

function findProbe(probe: MsgsProbe, data: string | undefined): Promise<string> {
  const location = {
    name: `msgs:${probe}`,
    folders: [probe, join("msgs", probe)],
    markerFiles: ["train.jsonl"],
    instructions: `Expected ${probe}/{train,test,inoculating}.jsonl of MSGS (from github.com/nyu-mll/msgs).`,
  };
  return findDatasetFolder(location, data);
}

function readPart(folder: string, part: MsgsPart, options: ReadOptions): Promise<Example[]> {
  const { file, condition } = sources[part];
  const isIncluded = (row: { readonly condition?: unknown }) => condition === undefined || row.condition === condition;
  return readExamples(join(folder, file), columns, options, isIncluded);
}
