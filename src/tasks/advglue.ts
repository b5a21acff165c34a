import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { readJson } from "../base/files.js";
import type { BuiltInTask } from "./built-in-task.js";
import { type GlueName, getHubTexts, glueDatasets } from "./glue.js";
import { parseExamples } from "./parse-examples.js";
import { parseJsonArray } from "./read-table.js";

export const advglueParts: readonly GlueName[] = ["sst2", "qqp", "qnli", "rte", "mnli", "mnli-mm"];

const isFile = (path: string): boolean => path.endsWith(".json");

/** The parts of AdvGLUE as tasks `advglue:PART`, with the labels of their GLUE tasks. */
export const advglueTasks: readonly BuiltInTask[] = advglueParts.map((part) => {
  const { labels, fields, modifiableFields, metrics } = glueDatasets[part];
  return {
    name: `advglue:${part}`,
    labels,
    fields,
    modifiableFields,
    metrics,
    benchmark: "AdvGLUE",
    splits: ["validation"],
    names: { validation: "dev" },
    noTrainReason: `AdvGLUE is for evaluation only; train on ${part} instead.`,
    folders: ["advglue", "AdvGLUE"],
    markerFiles: ["dev.json"],
    instructions: "Expected AdvGLUE's dev.json (from adversarialglue.github.io).",
    acceptsFile: isFile,
    hub: {
      repository: "AI-Secure/adv_glue",
      folder: `adv_${part.replace("-mm", "_mismatched")}`,
      texts: getHubTexts(part),
    },
    async read(folder, _split, options) {
      const file = isFile(folder) ? folder : join(folder, "dev.json");
      const table = parseJsonArray(`${file} (${part})`, await readPart(file, part));
      // In AdvGLUE, labels are integers in GLUE's order. For RTE and QNLI, too, 0 is entailment.
      const values = labels.map((_, index) => String(index));
      return parseExamples(table, { texts: getHubTexts(part), label: "label", values }, options, part);
    },
  };
});

async function readPart(file: string, part: GlueName): Promise<unknown[]> {
  const value = await readJson(file, "AdvGLUE");
  const parts: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : {};
  const found = advglueParts.filter((name) => name in parts);
  if (found.length === 0)
    throw new UserError(
      `${file}: expected AdvGLUE's dev.json, an object with the keys ${advglueParts.join(", ")}; ` +
        `received ${Object.keys(parts).join(", ") || typeof value}.`,
    );
  if (!found.includes(part))
    throw new UserError(`advglue: ${file} has no part "${part}". It has: ${found.join(", ")}.`);
  const items = parts[part];
  if (!Array.isArray(items) || items.length === 0) throw new UserError(`${file}: part "${part}" is empty.`);
  return items;
}
