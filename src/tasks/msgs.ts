import { join } from "node:path";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask } from "./make-task.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import type { Example, Task } from "./task.js";

/** The probes: a linguistic feature, named first, against a surface feature. */
export const msgsProbes = [
  "control_raising_length",
  "control_raising_lexical_content_the",
  "syntactic_category_length",
  "syntactic_category_lexical_content_the",
] as const;

export type MsgsProbe = (typeof msgsProbes)[number];

/**
 * - `train`: both features agree, so a model may learn either;
 * - `inoculating`: train's sentences with the features apart, to be mixed into train;
 * - `in-domain`: as train, held out;
 * - `disambiguating`: the features disagree: what a model answers here shows which one it learnt;
 * - `control`: another domain, the features agree.
 */
export type MsgsPart = "train" | "inoculating" | "in-domain" | "disambiguating" | "control";

const sources: Record<MsgsPart, { file: string; condition?: string }> = {
  train: { file: "train.jsonl" },
  inoculating: { file: "inoculating.jsonl" },
  "in-domain": { file: "test.jsonl", condition: "training" },
  disambiguating: { file: "test.jsonl", condition: "test" },
  control: { file: "test.jsonl", condition: "control" },
};

/** One part of a probe, labelled by its linguistic feature. */
export async function loadMsgsPart(
  probe: MsgsProbe,
  part: MsgsPart,
  data: string | undefined,
  options: ReadOptions,
): Promise<Example[]> {
  return readPart(await findProbe(probe, data), part, options);
}

/** Opens a probe: the in-domain part selects, and the disambiguating part reports. */
export async function loadMsgsTask(probe: MsgsProbe, data: string | undefined, options: ReadOptions): Promise<Task> {
  const folder = await findProbe(probe, data);
  return createTask({
    name: `msgs:${probe}`,
    labels: probe.startsWith("control_raising") ? ["raising", "control"] : ["noun", "adjective"],
    fields: ["sentence"],
    metrics: ["matthews", "accuracy"],
    read: {
      train: () => readPart(folder, "train", options),
      dev: () => readPart(folder, "in-domain", options),
      test: () => readPart(folder, "disambiguating", options),
    },
  });
}

function findProbe(probe: MsgsProbe, data: string | undefined): Promise<string> {
  return findDatasetFolder(
    {
      name: `msgs:${probe}`,
      folders: [probe, join("msgs", probe)],
      markerFiles: ["train.jsonl"],
      instructions: `Expected ${probe}/train.jsonl, test.jsonl and inoculating.jsonl in the layout of MSGS (from github.com/nyu-mll/msgs).`,
    },
    data,
  );
}

async function readPart(folder: string, part: MsgsPart, options: ReadOptions): Promise<Example[]> {
  const { file, condition } = sources[part];
  const table = await readTable(join(folder, file));
  const rows = table.rows.filter(
    (row) => condition === undefined || row.problem !== undefined || row.values.condition === condition,
  );
  return parseExamples(
    { ...table, rows },
    { texts: ["sentence"], label: "linguistic_feature_label", values: ["0", "1"] },
    options,
    file,
  );
}
