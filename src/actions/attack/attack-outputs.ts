import { dirname, extname } from "node:path";
import { z } from "zod";
import { computeCosine } from "../../attacks/constraints/sentence-similarity.js";
import { readJournal } from "../../attacks/journal.js";
import type { AttackResources } from "../../attacks/resources.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import { checkWritable, createFolder, writeFileAtomic } from "../../base/files.js";
import { orNull } from "../../base/validate.js";
import { summarizeValidity, type Validity } from "../../evaluation/attack-validity.js";
import { getJournalPath, readSimilarities, writeSimilarities } from "../../runs/attack-folder.js";
import type { Task } from "../../tasks/index.js";

/** Options for what an attack gives besides its journals. */
export const attackOutputOptions = {
  saveDataset: orNull(z.string()).describe("write the texts that fooled the model as a dataset (.jsonl)"),
  minSimilarity: orNull(z.number().min(-1).max(1)).describe(
    "a text is valid if its similarity to the original is at least this; measures validity",
  ),
};

/** Rejects a dataset that cannot be written, before the attack. */
export function checkDatasetPath(path: string): void {
  if (extname(path) !== ".jsonl")
    throw new UserError(`--save-dataset: expected a path that ends with .jsonl, received "${path}".`);
  checkWritable(path);
}

/** Texts that are encoded together. */
const batchSize = 256;

/** Measures how similar the texts that fooled the model are to the originals, and writes it next to the journal. */
export async function measureValidity(
  folder: string,
  attack: string,
  encoder: AttackResources["encoder"],
  threshold: number,
): Promise<Validity> {
  const start = performance.now();
  const similarities = new Map<string, number>();
  let batch: AttackResult[] = [];
  let failed = 0;
  let total = 0;
  const flush = async (): Promise<void> => {
    const texts = batch.flatMap((result) => [result.texts.join("\n"), result.finalTexts.join("\n")]);
    const vectors = await encoder.compute(texts);
    for (const [i, { id }] of batch.entries())
      similarities.set(id, Math.round(1e6 * computeCosine(vectors[2 * i]!, vectors[2 * i + 1]!)) / 1e6);
    batch = [];
  };
  for await (const { result } of readJournal(getJournalPath(folder, attack))) {
    total++;
    if (result.outcome === "failed") failed++;
    if (result.outcome !== "success") continue;
    batch.push(result);
    if (batch.length === batchSize) await flush();
  }
  await flush();
  await writeSimilarities(folder, attack, {
    encoder: encoder.name,
    similarities: Object.fromEntries(similarities),
  });
  const seconds = (performance.now() - start) / 1000;
  return { encoder: encoder.name, ...summarizeValidity([...similarities.values()], threshold, failed, total), seconds };
}

/**
 * Writes the texts that fooled the model as a dataset that `temper evaluate --data` reads. With a
 * threshold, invalid texts are left out. Returns the number of texts.
 */
export async function saveDataset(
  path: string,
  {
    folder,
    names,
    minSimilarity,
  }: { readonly folder: string; readonly names: readonly string[]; readonly minSimilarity: number | null },
  { fields, labels }: Pick<Task, "fields" | "labels">,
): Promise<number> {
  const lines: string[] = [];
  for (const method of names) {
    const similarities = await readSimilarities(folder, method);
    for await (const { result } of readJournal(getJournalPath(folder, method))) {
      const similarity = similarities.get(result.id);
      const isValid = minSimilarity === null || (similarity ?? -1) >= minSimilarity;
      if (result.outcome !== "success" || !isValid) continue;
      const columns = fields.length === 1 ? ["text"] : fields;
      const texts = columns.map((column, i) => [column, result.finalTexts[i] ?? ""]);
      const originals = columns.map((column, i) => [`original_${column}`, result.texts[i] ?? ""]);
      const facts = { label: labels[result.label], id: result.id, method, similarity };
      lines.push(`${JSON.stringify({ ...Object.fromEntries([...texts, ...originals]), ...facts })}\n`);
    }
  }
  createFolder(dirname(path));
  await writeFileAtomic(path, lines.join(""));
  return lines.length;
}
