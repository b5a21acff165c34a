import { join } from "node:path";
import { type ReadOptions, toExamples } from "./examples.js";
import { findFolder } from "./locate.js";
import { makeTask } from "./make-task.js";
import { readTable } from "./table.js";
import type { Task } from "./task.js";

const labels = ["entailment", "neutral", "contradiction"];

/** Opens SNLI. Only words of the hypothesis may be substituted; pairs without a gold label ("-") are no examples. */
export async function openSnli(data: string | undefined, options: ReadOptions): Promise<Task> {
  const folder = await findFolder(
    {
      name: "snli",
      folders: ["snli_1.0", "snli"],
      signs: ["snli_1.0_train.jsonl"],
      remedy: "Expected snli_1.0_train.jsonl, snli_1.0_dev.jsonl and snli_1.0_test.jsonl (from nlp.stanford.edu/projects/snli).",
    },
    data,
  );
  const layout = { texts: ["sentence1", "sentence2"], label: "gold_label", values: labels, id: "pairID" };
  const read = async (split: string) => {
    const table = await readTable(join(folder, `snli_1.0_${split}.jsonl`));
    const rows = table.rows.filter((row) => row.values.gold_label !== "-");
    return toExamples({ ...table, rows }, layout, options, split);
  };
  return makeTask({
    name: "snli",
    labels,
    fields: ["premise", "hypothesis"],
    openFields: [1],
    read: { train: () => read("train"), dev: () => read("dev"), test: () => read("test") },
  });
}
