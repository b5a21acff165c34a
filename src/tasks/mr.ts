import { join } from "node:path";
import { readBytes } from "../base/files.js";
import type { BuiltInTask } from "./built-in-task.js";
import type { Example } from "./example.js";

const files = ["neg", "pos"];

/** MR (sentence polarity of movie reviews). It has no splits, so they are derived from hashes of the texts. */
export const mr: BuiltInTask = {
  name: "mr",
  labels: ["negative", "positive"],
  fields: ["sentence"],
  splits: ["train"],
  folders: ["mr", "rt-polaritydata"],
  markerFiles: ["rt-polarity.pos"],
  instructions:
    "Expected rt-polarity.neg and rt-polarity.pos " +
    "(sentence polarity dataset v1.0, from www.cs.cornell.edu/people/pabo/movie-review-data).",
  hub: {
    repository: "cornell-movie-review-data/rotten_tomatoes",
    texts: ["text"],
    splits: { train: ["train", "validation", "test"] },
    // The hub cuts each of the two files into three parts. Joined again, they have the order, the
    // IDs and therefore the splits of the original files.
    restore: (parts) =>
      files.flatMap((name, label) =>
        parts
          .filter((example) => example.label === label)
          .map(({ texts }, index) => ({ id: `${name}:${index + 1}`, texts, label })),
      ),
  },
  async read(folder) {
    return (await Promise.all(files.map((name, label) => readSentences(folder, name, label)))).flat();
  },
};

async function readSentences(folder: string, name: string, label: number): Promise<Example[]> {
  const text = (await readBytes(join(folder, `rt-polarity.${name}`), "the sentences")).toString("latin1");
  return text
    .split("\n")
    .flatMap((line, index) =>
      line.trim() === "" ? [] : [{ id: `${name}:${index + 1}`, texts: [line.trim()], label }],
    );
}
