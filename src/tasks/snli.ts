import { join } from "node:path";
import type { BuiltInTask } from "./built-in-task.js";
import { readExamples } from "./parse-examples.js";

const labels = ["entailment", "neutral", "contradiction"];
const columns = { texts: ["sentence1", "sentence2"], label: "gold_label", values: labels, id: "pairID" };

/** SNLI. Attacks change only the hypothesis. Pairs without a gold label ("-") are ignored. */
export const snli: BuiltInTask = {
  name: "snli",
  labels,
  fields: ["premise", "hypothesis"],
  modifiableFields: [1],
  splits: ["train", "validation", "test"],
  names: { validation: "dev" },
  folders: ["snli_1.0", "snli"],
  markerFiles: ["snli_1.0_train.jsonl"],
  instructions: "Expected snli_1.0_{train,dev,test}.jsonl (from nlp.stanford.edu/projects/snli).",
  hub: { repository: "stanfordnlp/snli", folder: "plain_text", texts: ["premise", "hypothesis"] },
  read: (folder, split, options) =>
    readExamples(join(folder, `snli_1.0_${split}.jsonl`), columns, options, (row) => row.gold_label !== "-"),
};
