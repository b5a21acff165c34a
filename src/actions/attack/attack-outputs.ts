import { dirname, extname } from "node:path";
import { readJournal } from "../../attacks/journal.js";
import { UserError } from "../../base/errors.js";
import { checkWritable, createFolder, writeFileAtomic } from "../../base/files.js";
import { getJournalPath } from "../../runs/attack-folder.js";
import type { Task } from "../../tasks/index.js";

export function checkDatasetPath(path: string): void {
  if (extname(path) !== ".jsonl")
    throw new UserError(`--save-dataset: expected a path that ends with .jsonl, received "${path}".`);
  checkWritable(path);
}

export async function saveDataset(
  path: string,
  folder: string,
  attacks: readonly string[],
  { fields, labels }: Pick<Task, "fields" | "labels">,
): Promise<number> {
  const lines: string[] = [];
  for (const method of attacks) {
    for await (const { result } of readJournal(getJournalPath(folder, method))) {
      if (result.outcome !== "success") continue;
      const columns = fields.length === 1 ? ["text"] : fields;
      const texts = columns.map((column, i) => [column, result.finalTexts[i] ?? ""]);
      const originals = columns.map((column, i) => [`original_${column}`, result.texts[i] ?? ""]);
      const facts = { label: labels[result.label], id: result.id, method };
      lines.push(`${JSON.stringify({ ...Object.fromEntries([...texts, ...originals]), ...facts })}\n`);
    }
  }
  createFolder(dirname(path));
  await writeFileAtomic(path, lines.join(""));
  return lines.length;
}
