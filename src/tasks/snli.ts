import { join } from "node:path";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask } from "./make-task.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import type { Task } from "./task.js";

const labels = ["entailment", "neutral", "contradiction"];

/** Opens SNLI. Only words of the hypothesis may be substituted; pairs without a gold label ("-") are no examples. */
export async function loadSnliTask(data: string | undefined, options: ReadOptions): Promise<Task> {
  const folder = await findDatasetFolder(
    {
      name: "snli",
      folders: ["snli_1.0", "snli"],
      markerFiles: ["snli_1.0_train.jsonl"],
      instructions:
        "Expected snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl (from nlp.stanford.edu/projects/snli).",
    },
    data,
  );
  const layout = { texts: ["sentence1", "sentence2"], label: "gold_label", values: labels, id: "pairID" };
  const read = async (split: string) => {
    const table = await readTable(join(folder, `snli_1.0_${split}.jsonl`));
    const rows = table.rows.filter((row) => row.values.gold_label !== "-");
    return parseExamples({ ...table, rows }, layout, options, split);
  };
  return createTask({
    name: "snli",
    labels,
    fields: ["premise", "hypothesis"],
    modifiableFields: [1],
    read: { train: () => read("train"), dev: () => read("dev"), test: () => read("test") },
  });
}
