import { join } from "node:path";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import { findDatasetFolder } from "./find-dataset.js";
import { type GlueName, glueSets } from "./glue.js";
import { createTask } from "./make-task.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { collectColumns, toObjectRow } from "./read-table.js";
import type { Task } from "./task.js";

/** Its columns: AdvGLUE names the texts of MNLI otherwise than GLUE's TSV does. */
const columns: Record<GlueName, readonly string[]> = {
  sst2: ["sentence"],
  qqp: ["question1", "question2"],
  qnli: ["question", "sentence"],
  rte: ["sentence1", "sentence2"],
  mnli: ["premise", "hypothesis"],
  "mnli-mm": ["premise", "hypothesis"],
};

export const advglueParts = Object.keys(columns) as GlueName[];

/** The parts of AdvGLUE's dev.json as tasks named `advglue:sst2` and so on, each with the labels of the GLUE task that it attacks. */
export async function loadAdvglueTasks(data: string | undefined, options: ReadOptions): Promise<Task[]> {
  const file = data?.endsWith(".json")
    ? data
    : join(
        await findDatasetFolder(
          {
            name: "advglue",
            folders: ["advglue", "AdvGLUE"],
            markerFiles: ["dev.json"],
            instructions: "Expected AdvGLUE's dev.json (from adversarialglue.github.io).",
          },
          data,
        ),
        "dev.json",
      );
  const parts = checkParts(file, await readJson(file, "AdvGLUE"));
  return advglueParts.filter((part) => part in parts).map((part) => createPartTask(part, file, parts[part], options));
}

/** One part of AdvGLUE. */
export async function loadAdvglueTask(part: GlueName, data: string | undefined, options: ReadOptions): Promise<Task> {
  const tasks = await loadAdvglueTasks(data, options);
  const found = tasks.find((task) => task.name === `advglue:${part}`);
  if (found === undefined)
    throw new UserError(
      `advglue: its dev.json has no part "${part}"; it has ${tasks.map((task) => task.name).join(", ")}`,
    );
  return found;
}

function checkParts(file: string, value: unknown): Record<string, unknown> {
  const names = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (!names.some((name) => name in columns)) {
    throw new UserError(
      `${file}: expected AdvGLUE's dev.json, an object with ${advglueParts.join(", ")}; received ${names.join(", ") || typeof value}`,
    );
  }
  return value as Record<string, unknown>;
}

function createPartTask(part: GlueName, file: string, items: unknown, options: ReadOptions): Task {
  const { labels, fields, ...set } = glueSets[part];
  // AdvGLUE writes labels as integers in GLUE's order, entailment 0 also for RTE and QNLI.
  const layout = { texts: columns[part], label: "label", values: labels.map((_, index) => String(index)) };
  const read = async () => {
    const rows = Array.isArray(items) ? items.map((item: unknown, index) => toObjectRow(item, index + 1)) : [];
    if (rows.length === 0) throw new UserError(`${file}: its part "${part}" is empty`);
    return parseExamples(
      { file: `${file} (${part})`, columns: collectColumns(rows), unit: "row", rows },
      layout,
      options,
      part,
    );
  };
  return createTask({
    name: `advglue:${part}`,
    labels,
    fields,
    ...("modifiableFields" in set && { modifiableFields: set.modifiableFields }),
    ...("metrics" in set && { metrics: set.metrics }),
    read: { dev: read },
    noTrainReason: `AdvGLUE only reports, train on ${part} instead`,
  });
}
