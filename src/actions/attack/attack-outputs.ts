import { mkdirSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { z } from "zod";
import { computeCosine } from "../../attacks/constraints/sentence-similarity.js";
import { readJournal } from "../../attacks/journal.js";
import type { AttackResources } from "../../attacks/resources.js";
import type { AttackResult } from "../../attacks/result.js";
import { UserError } from "../../base/errors.js";
import { checkWritable, createFileError, replaceFile, writeFileAtomic } from "../../base/files.js";
import { orNull } from "../../base/validate.js";
import { formatJournalCsv } from "../../evaluation/attack-csv.js";
import { formatTextAttackSummary } from "../../evaluation/attack-log-summary.js";
import { type AttackValidity, summarizeValidity } from "../../evaluation/attack-validity.js";
import { resolveModel } from "../../models/checkpoint/resolve-model.js";
import { getJournalPath, readSimilarities, writeSimilarities } from "../../runs/attack-folder.js";
import type { RuntimeOptions } from "../../settings/runtime-config.js";
import type { Task } from "../../tasks/index.js";
import { loadClassifier } from "../predict/text-classifier.js";

/** Options for the files of an attack besides its journals. */
export const attackOutputOptions = {
  logToCsv: orNull(z.string()).describe("write each attack in TextAttack's CSV format: a .csv file, or a folder"),
  logSummaryToJson: orNull(z.string()).describe("write TextAttack's summary as JSON: a .json file, or a folder"),
  saveDataset: orNull(z.string()).describe("write the texts that fooled the model as a dataset (.jsonl)"),
  transferTo: z.array(z.string()).default([]).describe("keep only texts in the dataset that fool this model, too"),
  density: z
    .boolean()
    .default(false)
    .describe("score every text of the attack random, and report the fraction that fools the model"),
  minSimilarity: orNull(z.number().min(-1).max(1)).describe(
    "a text is valid if its similarity to the original is at least this; measures validity",
  ),
};

type OutputOptions = z.output<z.ZodObject<typeof attackOutputOptions>>;

/** The file of an attack: the path itself, or a file in the folder with that path. */
function getLogPath(path: string, attack: string, count: number, suffix: string): string {
  if (extname(path) !== extname(suffix)) return join(path, `${attack}-${suffix}`);
  if (count > 1)
    throw new UserError(`${path}: expected a folder for the logs of ${count} attacks, received the path of a file.`);
  return path;
}

/** Rejects outputs that cannot be written and models that do not exist, before the attack. */
export async function checkOutputRequest(request: OutputOptions, numAttacks: number): Promise<void> {
  const { logToCsv, logSummaryToJson, saveDataset, transferTo } = request;
  if (logToCsv !== null) getLogPath(logToCsv, "", numAttacks, "log.csv");
  if (logSummaryToJson !== null) getLogPath(logSummaryToJson, "", numAttacks, "attack_summary_log.json");
  if (saveDataset !== null && extname(saveDataset) !== ".jsonl")
    throw new UserError(`--save-dataset: expected a path that ends with .jsonl, received "${saveDataset}".`);
  if (transferTo.length > 0 && saveDataset === null)
    throw new UserError("--transfer-to selects the texts of a dataset. Pass --save-dataset FILE.jsonl, too.");
  for (const path of [logToCsv, logSummaryToJson, saveDataset]) if (path !== null) checkWritable(path);
  for (const reference of transferTo) await resolveModel(reference);
}

/** Writes the logs of attacks in TextAttack's formats. */
export async function writeLogs(request: OutputOptions, folder: string, names: readonly string[]): Promise<void> {
  const { logToCsv, logSummaryToJson } = request;
  for (const name of names) {
    const journal = getJournalPath(folder, name);
    if (logToCsv !== null) {
      const path = getLogPath(logToCsv, name, names.length, "log.csv");
      createParent(path);
      await replaceFile(path, async (file) => {
        for await (const part of formatJournalCsv(journal)) await file.write(part);
      });
    }
    if (logSummaryToJson !== null) {
      const path = getLogPath(logSummaryToJson, name, names.length, "attack_summary_log.json");
      createParent(path);
      await writeFileAtomic(path, `${JSON.stringify(await formatTextAttackSummary(journal), null, 4)}\n`);
    }
  }
}

function createParent(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
  } catch (error) {
    throw createFileError(error, dirname(path), "create the folder");
  }
}

/** Texts that are encoded together. */
const batchSize = 256;

/**
 * Measures how similar the texts that fooled the model are to the originals, and how fluent both
 * are, and writes the numbers next to the journal. Without a masked language model, fluency is not
 * measured.
 */
export async function measureValidity(
  folder: string,
  attack: string,
  resources: Partial<AttackResources>,
  threshold: number,
): Promise<AttackValidity> {
  const start = performance.now();
  const [encoder, { mlm }] = [resources.encoder!, resources];
  const similarities = new Map<string, number>();
  const fluencies = new Map<string, readonly [original: number, final: number]>();
  let batch: AttackResult[] = [];
  let failed = 0;
  let total = 0;
  const flush = async (): Promise<void> => {
    const texts = batch.flatMap((result) => [result.texts.join("\n"), result.finalTexts.join("\n")]);
    const vectors = await encoder.compute(texts);
    const values = mlm ? await mlm.measureFluency(texts) : null;
    for (const [i, { id }] of batch.entries()) if (values) fluencies.set(id, [values[2 * i]!, values[2 * i + 1]!]);
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
    ...(mlm && { maskedLm: mlm.name, fluencies: Object.fromEntries(fluencies) }),
  });
  const seconds = (performance.now() - start) / 1000;
  return summarizeValidity(
    { similarities: [...similarities.values()], fluencies: [...fluencies.values()], failed, total, threshold, seconds },
    encoder.name,
  );
}

/**
 * Writes the texts that fooled the model as a dataset that `temper evaluate --data` reads. With a
 * threshold, invalid texts are left out; with other models, texts that do not fool all of them.
 * Returns the number of texts.
 */
export async function saveDataset(
  { saveDataset: path, transferTo, minSimilarity }: OutputOptions,
  folder: string,
  names: readonly string[],
  task: Task,
  runtime: RuntimeOptions,
): Promise<number> {
  let rows: { readonly attack: string; readonly result: AttackResult; readonly similarity: number | undefined }[] = [];
  for (const attack of names) {
    const similarities = await readSimilarities(folder, attack);
    for await (const { result } of readJournal(getJournalPath(folder, attack))) {
      const similarity = similarities.get(result.id);
      const isValid = minSimilarity === null || (similarity ?? -1) >= minSimilarity;
      if (result.outcome === "success" && isValid) rows.push({ attack, result, similarity });
    }
  }
  for (const reference of transferTo) {
    await using other = await loadClassifier(reference, runtime);
    const predictions = await other.classify(rows.map(({ result }) => toInput(result.finalTexts)));
    rows = rows.filter(({ result }, i) => predictions[i]!.label !== task.labels[result.label]);
  }
  const lines = rows.map(({ attack, result, similarity }) => {
    const texts = result.finalTexts;
    const fields = task.fields.map((field, i) => [task.fields.length === 1 ? "text" : field, texts[i] ?? ""]);
    const originals = task.fields.map((field, i) => [
      task.fields.length === 1 ? "original_text" : `original_${field}`,
      result.texts[i] ?? "",
    ]);
    const facts = { label: task.labels[result.label], id: result.id, method: attack };
    const line = { ...Object.fromEntries([...fields, ...originals]), ...facts };
    return JSON.stringify({ ...line, ...(similarity !== undefined && { similarity }) });
  });
  createParent(path!);
  await writeFileAtomic(path!, lines.map((line) => `${line}\n`).join(""));
  return rows.length;
}

function toInput([first = "", second]: readonly string[]): string | [string, string] {
  return second === undefined ? first : [first, second];
}
