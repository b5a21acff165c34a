import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../base/errors.js";
import { exists } from "../base/files.js";
import type { BuiltInTask } from "./built-in-task.js";
import type { Example } from "./example.js";
import { readExamples } from "./parse-examples.js";
import { readUtf8 } from "./read-table.js";

/** The names of the folders and of the labels, in the official order. */
const labels = ["neg", "pos"];
const columns = { texts: ["text"], label: "label", values: ["0", "1"], clean: removeLineBreakTags };

export const imdb: BuiltInTask = {
  name: "imdb",
  labels,
  fields: ["review"],
  splits: ["train", "test"],
  folders: ["imdb", "aclImdb", join("imdb", "aclImdb")],
  markerFiles: ["train.jsonl", join("train", "pos")],
  instructions:
    "Expected aclImdb/{train,test}/{pos,neg}/*.txt (from ai.stanford.edu/~amaas/data/sentiment), " +
    "or train.jsonl and test.jsonl with the columns text and label.",
  hub: { repository: "stanfordnlp/imdb", folder: "plain_text", texts: ["text"], clean: removeLineBreakTags },
  async read(folder, split, options) {
    return (await exists(join(folder, "train.jsonl")))
      ? readExamples(join(folder, `${split}.jsonl`), columns, options, undefined, split)
      : readFolders(folder, split);
  },
};

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
