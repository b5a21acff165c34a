import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask } from "./make-task.js";
import type { Example, Task } from "./task.js";

const labels = ["negative", "positive"];

/** Opens MR (sentence polarity of movie reviews). It comes whole: its splits are cut by a hash of the text. */
export async function loadMrTask(data: string | undefined): Promise<Task> {
  const folder = await findDatasetFolder(
    {
      name: "mr",
      folders: ["mr", "rt-polaritydata"],
      markerFiles: ["rt-polarity.pos"],
      instructions:
        "Expected rt-polarity.neg and rt-polarity.pos (sentence polarity dataset v1.0, from www.cs.cornell.edu/people/pabo/movie-review-data).",
    },
    data,
  );
  const read = async () =>
    (await Promise.all(["neg", "pos"].map((ending, label) => readSentences(folder, ending, label)))).flat();
  return createTask({ name: "mr", labels, fields: ["sentence"], read: { train: read } });
}

async function readSentences(folder: string, ending: string, label: number): Promise<Example[]> {
  const text = await readFile(join(folder, `rt-polarity.${ending}`), "latin1");
  return text
    .split("\n")
    .flatMap((line, index) =>
      line.trim() === "" ? [] : [{ id: `${ending}:${index + 1}`, texts: [line.trim()], label }],
    );
}
