import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { loadConfiguredTask } from "../actions/load/load-task.js";
import { findNearMatch } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFileError, createFolder } from "../base/files.js";
import { formatCount, formatPercent } from "../base/format.js";
import { groupBy } from "../base/group-by.js";
import { flattenData, type RunConfigInput } from "../settings/config.js";
import { groupFilesBySplit } from "../tasks/custom-task.js";
import { type Example, isRemoteData, type Split, splitExamples, type Task, writeExamplesFile } from "../tasks/index.js";
import { chooseColumns } from "../tasks/infer-columns.js";
import { readTable } from "../tasks/read-table.js";
import { createTask } from "../tasks/task.js";
import type { ChoiceKey, ParsedHardenRequest } from "./harden-request.js";

type DataSettings = Pick<
  RunConfigInput,
  "task" | "data" | "textColumn" | "labelColumn" | "labelMap" | "validationData" | "testData"
>;

/** A choice that depends on the data: what is shown, and why. */
export type DataChoices = Partial<Record<ChoiceKey, { readonly shown: string; readonly reason: string }>>;

/** The texts of both runs, read and checked. Nothing is written yet. */
export interface HardenData {
  readonly task: Task;
  readonly examples: Readonly<Record<Split, readonly Example[]>>;
  readonly settings: DataSettings;
  readonly choices: DataChoices;
  /** Files that `settings` names, and that have to be written before a run reads them. */
  readonly files: readonly { readonly path: string; readonly examples: readonly Example[] }[];
}

/** With more rows that cannot be read, a wrong setting is more likely than a few bad rows. */
const maxSkippedFraction = 0.05;
/** A split for training, one for validation and one for the test have one text each. */
const minTextsPerLabel = 3;
/** A label that is spelled almost as another one, and has at most this fraction of its texts, is a typo. */
const typoFraction = 0.02;
const maxListedLines = 10;

/** Test texts that the split of one file aims at: 10% of a few hundred would show no difference. */
const wantedTestTexts = 200;

/**
 * Reads and checks the data. The columns of a file need no names. One file or array is split here,
 * into a folder of `out` that `writeData` writes.
 */
export async function readHardenData(request: ParsedHardenRequest, callbacks: Callbacks): Promise<HardenData> {
  const { task: name, data, labelMap } = flattenData(request);
  const { validationData, testData, out, attackedLabel } = request;
  if (name === null && data === null)
    throw new UserError("Expected --data FILE, such as reviews.csv, or --task NAME, such as sst2.");
  const { textColumn, labelColumn, choices } = await nameColumns(flattenData(request));
  const given: DataSettings = { task: name, data, textColumn, labelColumn, labelMap, validationData, testData };
  const task = await loadConfiguredTask({ ...request, data, textColumn, labelColumn, labelMap }, callbacks, {
    maxSkippedFraction,
  });
  if (attackedLabel !== null && !task.labels.includes(attackedLabel))
    throw new UserError(`--attacked-label: expected a label (${task.labels.join(", ")}), received ${attackedLabel}`);
  const isOne = Array.isArray(data) || (typeof data === "string" && (await isFile(data)));
  if (!isOne || name !== null || testData !== null || validationData !== null) {
    const examples = await loadSplits(task);
    checkLabels(task, Object.values(examples).flat(), labelMap);
    return { task, examples, settings: given, choices, files: [] };
  }
  const all = (await Promise.all(task.splits.map((split) => task.load(split)))).flat();
  checkLabels(task, all, labelMap);
  const fraction = Math.max(0.1, Math.min(0.3, wantedTestTexts / all.length));
  const { test, rest } = splitExamples(all, { test: { fraction } });
  // The folder has the name of the file, so that the runs are named after it.
  const folder = join(out, "data", typeof data === "string" ? basename(data) : "examples");
  const split = createTask({
    name: task.name,
    labels: task.labels,
    fields: task.fields,
    read: { train: async () => rest, test: async () => test },
  });
  const reason = `${formatPercent(fraction, 0)} of the data are held out; with fewer, a difference would not be seen`;
  return {
    task: split,
    examples: await loadSplits(split),
    settings: {
      data: folder,
      textColumn: task.fields.length === 1 ? ["text"] : ["sentence1", "sentence2"],
      labelColumn: "label",
    },
    choices: { ...choices, testData: { shown: formatCount(test.length), reason } },
    files: [
      { path: join(folder, "train.jsonl"), examples: rest },
      { path: join(folder, "test.jsonl"), examples: test },
    ],
  };
}

export async function writeData({ files, task }: HardenData): Promise<void> {
  for (const { path, examples } of files) {
    createFolder(dirname(path));
    await writeExamplesFile(
      path,
      examples.map(({ texts, label }) => ({
        text: texts.length === 1 ? texts[0]! : ([texts[0]!, texts[1]!] as [string, string]),
        label: task.labels[label]!,
      })),
    );
  }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() ?? false;
}

async function loadSplits(task: Task): Promise<HardenData["examples"]> {
  const load = async (split: Split): Promise<readonly Example[]> =>
    task.splits.includes(split) ? task.load(split) : [];
  return { train: await load("train"), validation: await load("validation"), test: await load("test") };
}

type NamedColumns = Pick<ParsedHardenRequest, "textColumn" | "labelColumn"> & { readonly choices: DataChoices };

async function nameColumns({
  task,
  data,
  textColumn,
  labelColumn,
}: ReturnType<typeof flattenData<ParsedHardenRequest>>): Promise<NamedColumns> {
  const isLocal = task === null && typeof data === "string" && !isRemoteData(data);
  if (!isLocal || (textColumn.length > 0 && labelColumn !== null)) return { textColumn, labelColumn, choices: {} };
  const file = await findLeadingFile(data);
  // The error about a folder without tables is that of the task.
  if (file === null) return { textColumn, labelColumn, choices: {} };
  const { texts, label } = chooseColumns(await readTable(file), { textColumn, labelColumn });
  return {
    textColumn: [...texts.name],
    labelColumn: label.name,
    choices: {
      ...(texts.reason !== null && { textColumn: { shown: texts.name.join(" and "), reason: texts.reason } }),
      ...(label.reason !== null && { labelColumn: { shown: label.name, reason: label.reason } }),
    },
  };
}

async function findLeadingFile(data: string): Promise<string | null> {
  const entry = await stat(data).catch((error: unknown) => {
    throw createFileError(error, data, "read");
  });
  if (!entry.isDirectory()) return data;
  return groupFilesBySplit((await readdir(data)).map((name) => join(data, name))).train?.[0] ?? null;
}

function checkLabels(task: Task, examples: readonly Example[], labelMap: ParsedHardenRequest["labelMap"]): void {
  const byLabel = groupBy(examples, ({ label }) => label);
  const counts = task.labels.map((label, i) => ({ label, texts: byLabel.get(i) ?? [] }));
  const problems = counts.flatMap(({ label, texts }) => {
    const frequent = counts.filter(
      (other) => other.texts.length >= minTextsPerLabel && texts.length <= typoFraction * other.texts.length,
    );
    const meant = findNearMatch(
      label,
      frequent.map((other) => other.label),
    );
    const isTypo = meant !== undefined && /\p{L}{2}/u.test(label);
    return texts.length < minTextsPerLabel || isTypo ? [{ label, texts, meant: isTypo ? meant : undefined }] : [];
  });
  if (problems.length === 0) return;
  const isOneFile = new Set(examples.map(({ id }) => id.slice(0, id.lastIndexOf(":")))).size === 1;
  const lines = problems.map(({ label, texts, meant }) => {
    const at = texts.map(({ id }) => (isOneFile ? id.slice(id.lastIndexOf(":") + 1) : id));
    const more = at.length > maxListedLines ? ` and ${formatCount(at.length - maxListedLines)} more` : "";
    const where =
      at.length === 0 ? "" : ` (line${at.length === 1 ? "" : "s"} ${at.slice(0, maxListedLines).join(", ")}${more})`;
    const count = `${formatCount(texts.length)} ${texts.length === 1 ? "text" : "texts"}`;
    return `  ${JSON.stringify(label)}: ${count}${where}${meant === undefined ? "" : `; did you mean ${JSON.stringify(meant)}?`}`;
  });
  const renamed = problems.flatMap(({ label, meant }) => (meant === undefined ? [] : [`${label}=${meant}`]));
  const map = [...Object.entries(labelMap ?? {}).map(([value, label]) => `${value}=${label}`), ...renamed];
  const remedy =
    renamed.length > 0 ? `Correct the data, or rename them with --label-map ${map.join(",")}` : "Correct the data";
  throw new UserError(
    `${task.name}: ${problems.length === 1 ? "a label has" : `${problems.length} labels have`} too few texts to be learned:\n` +
      `${lines.join("\n")}\nExpected at least ${minTextsPerLabel} texts per label. ${remedy}.`,
  );
}
