import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask, type Example, type Task } from "./task.js";

/**
 * Loads MR (sentence polarity of movie reviews). It has no splits, so they are derived from hashes
 * of the texts.
 */
export async function loadMrTask(data: string | undefined): Promise<Task> {
  const folder = await findDatasetFolder(
    {
      name: "mr",
      folders: ["mr", "rt-polaritydata"],
      markerFiles: ["rt-polarity.pos"],
      instructions:
        "Expected rt-polarity.neg and rt-polarity.pos " +
        "(sentence polarity dataset v1.0, from www.cs.cornell.edu/people/pabo/movie-review-data).",
    },
    data,
  );
  const read = async () =>
    (await Promise.all(["neg", "pos"].map((name, label) => readSentences(folder, name, label)))).flat();
  return createTask({ name: "mr", labels: ["negative", "positive"], fields: ["sentence"], read: { train: read } });
}

async function readSentences(folder: string, name: string, label: number): Promise<Example[]> {
  const text = await readFile(join(folder, `rt-polarity.${name}`), "latin1");
  return text
    .split("\n")
    .flatMap((line, index) =>
      line.trim() === "" ? [] : [{ id: `${name}:${index + 1}`, texts: [line.trim()], label }],
    );
}
