import { join } from "node:path";
import type { BuiltInTask } from "./built-in-task.js";
import { readExamples } from "./parse-examples.js";

export const msgsProbes = [
  "control_raising_length",
  "control_raising_lexical_content_the",
  "syntactic_category_length",
  "syntactic_category_lexical_content_the",
] as const;

const columns = { texts: ["sentence"], label: "linguistic_feature_label", values: ["0", "1"] };

/**
 * A probe as a task, labeled by the linguistic feature. Both features agree in train and validation
 * and disagree in test, which shows the one that a model learned.
 */
export function createMsgsTask(probe: (typeof msgsProbes)[number]): BuiltInTask {
  return {
    name: `msgs:${probe}`,
    labels: probe.startsWith("control_raising") ? ["raising", "control"] : ["noun", "adjective"],
    fields: ["sentence"],
    metrics: ["matthews", "accuracy"],
    splits: ["train", "validation", "test"],
    names: { validation: "in-domain", test: "disambiguating" },
    folders: [probe, join("msgs", probe)],
    markerFiles: ["train.jsonl"],
    instructions: `Expected ${probe}/{train,test}.jsonl of MSGS (from github.com/nyu-mll/msgs).`,
    read(folder, split, options) {
      if (split === "train") return readExamples(join(folder, "train.jsonl"), columns, options);
      const condition = split === "in-domain" ? "training" : "test";
      return readExamples(join(folder, "test.jsonl"), columns, options, (row) => row.condition === condition);
    },
  };
}
