import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { readJson } from "../base/files.js";
import type { Example } from "./example.js";
import { findDataset } from "./find-dataset.js";
import { type GlueName, getHubTexts, glueDatasets } from "./glue.js";
import type { HubReadOptions } from "./hub-repository.js";
import { parseExamples } from "./parse-examples.js";
import { parseJsonArray } from "./read-table.js";
import { createTask, type DatasetSource, type Task } from "./task.js";

/** The parts of AdvGLUE, each named after the GLUE task that it attacks. */
export const advglueParts: readonly GlueName[] = ["sst2", "qqp", "qnli", "rte", "mnli", "mnli-mm"];

/** Loads one part of AdvGLUE as the task `advglue:PART`, with the labels of its GLUE task. */
export async function loadAdvglueTask(
  part: GlueName,
  data: string | undefined,
  options: HubReadOptions,
): Promise<Task> {
  if (data?.endsWith(".json")) return createTaskFromFile(part, data, options);
  const found = await findDataset(
    {
      name: `advglue:${part}`,
      folders: ["advglue", "AdvGLUE"],
      markerFiles: ["dev.json"],
      instructions: "Expected AdvGLUE's dev.json (from adversarialglue.github.io).",
      hub: {
        repository: "AI-Secure/adv_glue",
        folder: `adv_${part.replace("-mm", "_mismatched")}`,
        splits: ["validation"],
        texts: getHubTexts(part),
        labels: glueDatasets[part].labels,
      },
    },
    data,
    options,
  );
  if (found.hub === null) return createTaskFromFile(part, join(found.folder, "dev.json"), options);
  const { hub } = found;
  return createPartTask(part, () => hub.read("validation"), hub.source);
}

async function createTaskFromFile(part: GlueName, file: string, options: HubReadOptions): Promise<Task> {
  const value = await readJson(file, "AdvGLUE");
  const parts: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  const found = advglueParts.filter((name) => name in parts);
  if (found.length === 0) {
    throw new UserError(
      `${file}: expected AdvGLUE's dev.json, an object with the keys ${advglueParts.join(", ")}; ` +
        `received ${Object.keys(parts).join(", ") || typeof value}.`,
    );
  }
  if (!found.includes(part))
    throw new UserError(`advglue: ${file} has no part "${part}". It has: ${found.join(", ")}.`);
  // In AdvGLUE, labels are integers in GLUE's order. For RTE and QNLI, too, 0 is entailment.
  const values = glueDatasets[part].labels.map((_, index) => String(index));
  const items = parts[part];
  return createPartTask(part, async () => {
    const table = parseJsonArray(`${file} (${part})`, Array.isArray(items) ? items : []);
    if (table.rows.length === 0) throw new UserError(`${file}: part "${part}" is empty.`);
    return parseExamples(table, { texts: getHubTexts(part), label: "label", values }, options, part);
  });
}

function createPartTask(part: GlueName, read: () => Promise<Example[]>, source?: DatasetSource): Task {
  const { labels, fields, modifiableFields, metrics } = glueDatasets[part];
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
    source,
  });
}
