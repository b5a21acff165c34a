import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { exists } from "../files.js";
import { findDatasetFolder } from "./find-dataset.js";
import { createTask } from "./make-task.js";
import { parseExamples, type ReadOptions } from "./parse-examples.js";
import { readTable, readUtf8 } from "./read-table.js";
import type { Example, Task } from "./task.js";

/** The folders' names and the label's names, in the official order. */
const labels = ["neg", "pos"];

/** Opens IMDB, from aclImdb's folders or from train.jsonl and test.jsonl. The test split reports: `select` is cut from train. */
export async function loadImdbTask(data: string | undefined, options: ReadOptions): Promise<Task> {
  const folder = await findDatasetFolder(
    {
      name: "imdb",
      folders: ["imdb", "aclImdb", join("imdb", "aclImdb")],
      markerFiles: ["train.jsonl", join("train", "pos")],
      instructions:
        "Expected aclImdb/{train,test}/{pos,neg}/*.txt (from ai.stanford.edu/~amaas/data/sentiment), or train.jsonl and test.jsonl with text and label.",
    },
    data,
  );
  const asLines = await exists(join(folder, "train.jsonl"));
  const read = (split: string) => (asLines ? readJsonLines(folder, split, options) : readFolders(folder, split));
  return createTask({
    name: "imdb",
    labels,
    fields: ["review"],
    read: { train: () => read("train"), test: () => read("test") },
  });
}

async function readJsonLines(folder: string, split: string, options: ReadOptions): Promise<Example[]> {
  const table = await readTable(join(folder, `${split}.jsonl`));
  const layout = { texts: ["text"], label: "label", values: ["0", "1"], clean: removeLineBreakTags };
  return parseExamples(table, layout, options, split);
}

async function readFolders(folder: string, split: string): Promise<Example[]> {
  const examples: Example[] = [];
  for (const [label, name] of labels.entries()) {
    const files = (await readdir(join(folder, split, name)).catch(() => [])).filter((file) => file.endsWith(".txt"));
    if (files.length === 0) throw new UserError(`imdb: ${join(folder, split, name)} holds no .txt files`);
    // The folder's own order is the file system's; by number it is the same everywhere.
    files.sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
    for (let start = 0; start < files.length; start += 64) {
      const texts = await Promise.all(
        files.slice(start, start + 64).map((file) => readUtf8(join(folder, split, name, file))),
      );
      for (const [offset, text] of texts.entries()) {
        examples.push({ id: `${split}/${name}/${files[start + offset]}`, texts: [removeLineBreakTags(text)], label });
      }
    }
  }
  return examples;
}

/** The reviews keep the line breaks of the page they come from as tags. */
export function removeLineBreakTags(text: string): string {
  return text.replace(/ ?(?:<br\s*\/?>\s*)+/gi, " ").trim();
}
