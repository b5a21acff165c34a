import { join } from "node:path";
import { readBytes } from "../base/files.js";
import type { Example } from "./example.js";
import { findDataset } from "./find-dataset.js";
import type { HubDataset } from "./hub-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";
import { createTask, type Task } from "./task.js";

const labels = ["negative", "positive"];
const hubParts = ["train", "validation", "test"];

/**
 * Loads MR (sentence polarity of movie reviews). It has no splits, so they are derived from hashes
 * of the texts.
 */
export async function loadMrTask(data: string | undefined, options: HubReadOptions): Promise<Task> {
  const { folder, hub } = await findDataset(
    {
      name: "mr",
      folders: ["mr", "rt-polaritydata"],
      markerFiles: ["rt-polarity.pos"],
      instructions:
        "Expected rt-polarity.neg and rt-polarity.pos " +
        "(sentence polarity dataset v1.0, from www.cs.cornell.edu/people/pabo/movie-review-data).",
      hub: { repository: "cornell-movie-review-data/rotten_tomatoes", splits: hubParts, texts: ["text"], labels },
    },
    data,
    options,
  );
  const read = async () =>
    hub
      ? joinParts(hub)
      : (await Promise.all(["neg", "pos"].map((name, label) => readSentences(folder, name, label)))).flat();
  return createTask({ name: "mr", labels, fields: ["sentence"], read: { train: read }, source: hub?.source });
}

/**
 * The hub cuts each of the two files into three parts. Joined again, they have the order, the IDs
 * and therefore the splits of the original files.
 */
async function joinParts(hub: HubDataset): Promise<Example[]> {
  const parts: Example[] = [];
  for (const part of hubParts) parts.push(...(await hub.read(part)));
  return ["neg", "pos"].flatMap((name, label) =>
    parts
      .filter((example) => example.label === label)
      .map(({ texts }, index) => ({ id: `${name}:${index + 1}`, texts, label })),
  );
}

async function readSentences(folder: string, name: string, label: number): Promise<Example[]> {
  const text = (await readBytes(join(folder, `rt-polarity.${name}`), "the sentences")).toString("latin1");
  return text
    .split("\n")
    .flatMap((line, index) =>
      line.trim() === "" ? [] : [{ id: `${name}:${index + 1}`, texts: [line.trim()], label }],
    );
}
