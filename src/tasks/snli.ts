import { join } from "node:path";
import { findDataset } from "./find-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";
import { readExamples } from "./parse-examples.js";
import { createTask, type Task } from "./task.js";

const labels = ["entailment", "neutral", "contradiction"];

/** Attacks change only the hypothesis. */
export const snliModifiableFields: readonly number[] = [1];

/**
 * Loads SNLI. Only words of the hypothesis may be substituted. Pairs without a gold label ("-") are
 * ignored.
 */
export async function loadSnliTask(data: string | undefined, options: HubReadOptions): Promise<Task> {
  const { folder, hub } = await findDataset(
    {
      name: "snli",
      folders: ["snli_1.0", "snli"],
      markerFiles: ["snli_1.0_train.jsonl"],
      instructions: "Expected snli_1.0_{train,dev,test}.jsonl (from nlp.stanford.edu/projects/snli).",
      hub: {
        repository: "stanfordnlp/snli",
        folder: "plain_text",
        splits: ["train", "validation", "test"],
        texts: ["premise", "hypothesis"],
        labels,
      },
    },
    data,
    options,
  );
  const columns = { texts: ["sentence1", "sentence2"], label: "gold_label", values: labels, id: "pairID" };
  const read =
    (split: string, hubSplit = split) =>
    () =>
      hub
        ? hub.read(hubSplit)
        : readExamples(join(folder, `snli_1.0_${split}.jsonl`), columns, options, (row) => row.gold_label !== "-");
  return createTask({
    name: "snli",
    labels,
    fields: ["premise", "hypothesis"],
    modifiableFields: snliModifiableFields,
    read: { train: read("train"), validation: read("dev", "validation"), test: read("test") },
    names: { validation: "dev" },
    source: hub?.source,
  });
}
