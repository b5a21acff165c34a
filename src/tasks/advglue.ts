import { join } from "node:path";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import { findDatasetFolder } from "./find-dataset.js";
import { type GlueName, glueDatasets } from "./glue.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { parseJsonArray } from "./read-table.js";
import { createTask, type Task } from "./task.js";

/** The text columns. The names for MNLI differ from those in GLUE's TSV files. */
const textColumns: Record<GlueName, readonly string[]> = {
  sst2: ["sentence"],
  qqp: ["question1", "question2"],
  qnli: ["question", "sentence"],
  rte: ["sentence1", "sentence2"],
  mnli: ["premise", "hypothesis"],
  "mnli-mm": ["premise", "hypothesis"],
};

/** The parts of AdvGLUE, each named after the GLUE task that it attacks. */
export const advglueParts = Object.keys(textColumns) as GlueName[];

/**
 * Loads all parts of AdvGLUE's dev.json as tasks `advglue:sst2` etc., with the labels of their GLUE
 * tasks.
 */
export async function loadAdvglueTasks(data: string | undefined, options: ReadOptions): Promise<Task[]> {
  const location = {
    name: "advglue",
    folders: ["advglue", "AdvGLUE"],
    markerFiles: ["dev.json"],
    instructions: "Expected AdvGLUE's dev.json (from adversarialglue.github.io).",
  };
  const file = data?.endsWith(".json") ? data : join(await findDatasetFolder(location, data), "dev.json");
  const value = await readJson(file, "AdvGLUE");
  const parts: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  const found = advglueParts.filter((part) => part in parts);
  if (found.length === 0) {
    throw new UserError(
      `${file}: expected AdvGLUE's dev.json, an object with the keys ${advglueParts.join(", ")}; ` +
        `received ${Object.keys(parts).join(", ") || typeof value}.`,
    );
  }
  return found.map((part) => createPartTask(part, file, parts[part], options));
}

/** Loads one part of AdvGLUE. */
export async function loadAdvglueTask(part: GlueName, data: string | undefined, options: ReadOptions): Promise<Task> {
  const tasks = await loadAdvglueTasks(data, options);
  const task = tasks.find(({ name }) => name === `advglue:${part}`);
  if (task !== undefined) return task;
  throw new UserError(`advglue: dev.json has no part "${part}". It has: ${tasks.map(({ name }) => name).join(", ")}.`);
}

function createPartTask(part: GlueName, file: string, items: unknown, options: ReadOptions): Task {
  const { labels, fields, modifiableFields, metrics } = glueDatasets[part];
  // In AdvGLUE, labels are integers in GLUE's order. For RTE and QNLI, too, 0 is entailment.
  const columns = { texts: textColumns[part], label: "label", values: labels.map((_, index) => String(index)) };
  const read = async () => {
    const table = parseJsonArray(`${file} (${part})`, Array.isArray(items) ? items : []);
    if (table.rows.length === 0) throw new UserError(`${file}: part "${part}" is empty.`);
    return parseExamples(table, columns, options, part);
  };
  return createTask({
    name: `advglue:${part}`,
    labels,
    fields,
    modifiableFields,
    metrics,
    benchmark: "AdvGLUE",
    read: { validation: read },
    names: { validation: "dev" },
    noTrainReason: `AdvGLUE is for evaluation only; train on ${part} instead.`,
  });
}
