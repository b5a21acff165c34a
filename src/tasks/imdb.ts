import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { exists } from "../base/files.js";
import type { Example } from "./example.js";
import { findDataset } from "./find-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";
import { readExamples } from "./parse-examples.js";
import { readUtf8 } from "./read-table.js";
import { createTask, type Task } from "./task.js";

/** The names of the folders and of the labels, in the official order. */
const labels = ["neg", "pos"];

/** Loads IMDB from the folders of aclImdb, from train.jsonl and test.jsonl, or from the hub. */
export async function loadImdbTask(data: string | undefined, options: HubReadOptions): Promise<Task> {
  const { folder, hub } = await findDataset(
    {
      name: "imdb",
      folders: ["imdb", "aclImdb", join("imdb", "aclImdb")],
      markerFiles: ["train.jsonl", join("train", "pos")],
      instructions:
        "Expected aclImdb/{train,test}/{pos,neg}/*.txt (from ai.stanford.edu/~amaas/data/sentiment), " +
        "or train.jsonl and test.jsonl with the columns text and label.",
      hub: {
        repository: "stanfordnlp/imdb",
        folder: "plain_text",
        splits: ["train", "test"],
        texts: ["text"],
        labels,
        clean: removeLineBreakTags,
      },
    },
    data,
    options,
  );
  const columns = { texts: ["text"], label: "label", values: ["0", "1"], clean: removeLineBreakTags };
  const isJsonLines = folder !== null && (await exists(join(folder, "train.jsonl")));
  const read = (split: string) => () => {
    if (hub) return hub.read(split);
    return isJsonLines
      ? readExamples(join(folder, `${split}.jsonl`), columns, options, undefined, split)
      : readFolders(folder, split);
  };
  const splits = { train: read("train"), test: read("test") };
  return createTask({ name: "imdb", labels, fields: ["review"], read: splits, source: hub?.source });
}

async function readFolders(folder: string, split: string): Promise<Example[]> {
  const examples: Example[] = [];
  for (const [label, name] of labels.entries()) {
    const path = join(folder, split, name);
    const files = (await readdir(path).catch(() => [])).filter((file) => file.endsWith(".txt"));
    if (files.length === 0) throw new UserError(`imdb: ${path} contains no .txt files.`);
    // The order of readdir depends on the file system, so sort by number.
    files.sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
    for (let start = 0; start < files.length; start += 64) {
      const chunk = files.slice(start, start + 64);
      const texts = await Promise.all(chunk.map((file) => readUtf8(join(path, file))));
      for (const [index, text] of texts.entries())
        examples.push({ id: `${split}/${name}/${chunk[index]}`, texts: [removeLineBreakTags(text)], label });
    }
  }
  return examples;
}

/** The reviews contain line breaks as HTML tags. */
function removeLineBreakTags(text: string): string {
  return text.replace(/ ?(?:<br\s*\/?>\s*)+/gi, " ").trim();
}
