import type { Command } from "@commander-js/extra-typings";
import { evaluate, evaluateAdvglue, evaluateRequestSchema } from "../../actions/evaluate.js";
import { UserError } from "../../base/errors.js";
import { formatCount, formatInterval, formatNumber, formatPercent } from "../../base/format.js";
import { formatWithUnit, recallAtFprPrefix } from "../../evaluation/metric-table.js";
import { computePrecision, describeGuardMetrics, listGuardMetrics } from "../../evaluation/operating-points.js";
import { describeGuard } from "../../proofs/certificates/index.js";
import type { AdvglueResult, EvaluationResult } from "../../runs/results.js";
import type { Io } from "../io.js";
import { addOptions, createOption, quietOption, splitOption } from "../options.js";
import { formatDegeneracyLine, formatTable } from "../output.js";
import { type CommandCallbacks, createCallbacks } from "../progress.js";
import { runWork } from "../work.js";

export const note = "Without --task and --data, the task of the model's run is used.";
export const examples = [
  "temper evaluate runs/sst2-standard-seed0",
  "temper evaluate runs/sst2-standard-seed0 --task advglue",
  "temper evaluate runs/spam --positive-label spam --benign newsletters=newsletters.txt",
  "temper evaluate runs/reviews --data more.csv --text-column review --label-column stars --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = evaluateRequestSchema;
  const withSplit = command.argument("<model>", shape.model.description).addOption(splitOption());
  addOptions(withSplit, shape, ["model", "split", "benign"])
    .addOption(createOption("benign", shape.benign, "--benign <name=file>").argParser(parseBenignOption))
    .option("--json", "print task, split, examples, accuracy, interval and metrics as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, task, split, ...request }) =>
      runWork<CommandCallbacks, EvaluationResult | AdvglueResult>(
        io,
        { display: createCallbacks(io, quiet), json },
        (callbacks) =>
          (task as string | undefined) === "advglue"
            ? evaluateAdvglue({ model, ...request }, callbacks)
            : evaluate({ model, task, split, ...request }, callbacks),
        (result) => ("advglue" in result ? formatAdvglue(io, result) : formatDetails(io, result)),
      ),
    );
}

export function formatEvaluation(
  io: Io,
  { task, split, examples, accuracy, interval, metrics, positiveLabel, threshold, degeneracy }: EvaluationResult,
): string {
  const others = Object.entries(metrics).filter(([name]) => name !== "accuracy");
  const rows = [
    ["accuracy", `${formatPercent(accuracy)}  (95% CI ${formatInterval(interval.low, interval.high)})`],
    ...others.map(([name, value]) => [name === "f1" ? `f1 of ${positiveLabel}` : name, formatWithUnit(name, value)]),
  ];
  const warning = formatDegeneracyLine(io, degeneracy, "accuracy");
  const rule = threshold === null ? "" : `; ${positiveLabel} from a probability of ${threshold} on`;
  return `${task} ${split}: ${formatCount(examples)} examples${rule}\n${formatTable(io.stdout, rows)}\n${warning}`;
}

function formatDetails(io: Io, result: EvaluationResult): string {
  const { labels, confusionMatrix } = result;
  const rows = confusionMatrix.map((row, i) => [labels[i] ?? String(i), ...row.map((count) => formatCount(count))]);
  const head = ["label \\ predicted", ...labels];
  const matrix = formatTable(io.stdout, rows, { head, numeric: labels.map((_, i) => i + 1) });
  const guard = result.guard ? `\n${describeGuard(result.guard)}\n` : "";
  const parts = [formatThresholds(io, result), formatOperatingPoints(io, result), formatSlices(io, result), guard];
  return `${formatEvaluation(io, result)}\n${matrix}\n${parts.join("")}`;
}

const shownRecalls = [0.5, 0.8, 0.9, 0.95, 0.99];

function formatThresholds(io: Io, { operatingPoints, positiveLabel }: EvaluationResult): string {
  if (!operatingPoints) return "";
  // With few texts, one threshold can be the first for several recalls.
  const points = new Set(
    shownRecalls.flatMap((wanted) => operatingPoints.curve.findLast(({ recall }) => recall >= wanted) ?? []),
  );
  const rows = [...points].map((point) => [
    formatPercent(point.recall),
    formatPercent(computePrecision(point, operatingPoints)),
    formatNumber(point.threshold!),
  ]);
  const head = [`recall of ${positiveLabel}`, "precision", "--threshold"];
  return `\n${formatTable(io.stdout, rows, { head, numeric: [0, 1, 2] })}\n`;
}

function parseBenignOption(assignment: string, before: Record<string, string> = {}): typeof before {
  const [, name, file] = /^([^=]+)=(.+)$/s.exec(assignment) ?? [];
  if (name === undefined || file === undefined)
    throw new UserError(`--benign: expected NAME=FILE, such as trigger-words=benign.txt, received "${assignment}".`);
  return { ...before, [name]: file };
}

function formatOperatingPoints(io: Io, { operatingPoints, positiveLabel, benign }: EvaluationResult): string {
  if (!operatingPoints) return "";
  const { positives, negatives, pointAtFpr } = operatingPoints;
  const rows = Object.entries(pointAtFpr).map(([rate, { recall, recallInterval, threshold }]) => [
    formatPercent(Number(rate)),
    formatPercent(recall),
    formatInterval(recallInterval.low, recallInterval.high),
    threshold === null ? "none" : formatNumber(threshold, 6),
    ...benign.map(({ falsePositiveRates }) => formatPercent(falsePositiveRates[rate] ?? 0)),
  ]);
  const sets = benign.map(({ name, examples }) => `flagged of ${name} (${formatCount(examples)})`);
  const head = ["false-positive rate", `recall of ${positiveLabel}`, "95% CI", "--threshold", ...sets];
  const table = formatTable(io.stdout, rows, { head, numeric: [0, 1, 3, ...sets.map((_, i) => i + 4)] });
  const others = describeGuardMetrics(
    listGuardMetrics(operatingPoints).filter(({ id }) => !id.startsWith(recallAtFprPrefix)),
  );
  const counts = `${formatCount(positives)} texts of ${positiveLabel}, ${formatCount(negatives)} others`;
  return `\n${table}\n${counts}: ${others}\n`;
}

function formatSlices(io: Io, { slices, positiveLabel }: EvaluationResult): string {
  if (slices.length === 0) return "";
  const rates = [...new Set(slices.flatMap(({ recallAtFpr }) => Object.keys(recallAtFpr)))];
  const rows = slices.map(({ name, examples, accuracy, recallAtFpr }) => [
    ...[name, formatCount(examples), formatPercent(accuracy)],
    ...rates.map((rate) => {
      const found = recallAtFpr[rate];
      return found
        ? `${formatPercent(found.recall)}  (${formatInterval(found.interval.low, found.interval.high)})`
        : "–";
    }),
  ]);
  const recalls = rates.map((rate) => `recall of ${positiveLabel} at ${formatPercent(Number(rate))} (95% CI)`);
  return `\n${formatTable(io.stdout, rows, { head: ["slice", "texts", "accuracy", ...recalls], numeric: [1, 2] })}\n`;
}

function formatAdvglue(io: Io, { part, glue, advglue, drop }: AdvglueResult): string {
  const rows = Object.entries({ GLUE: glue, AdvGLUE: advglue }).map(([name, { examples, accuracy, interval }]) => [
    `${name} ${part}`,
    formatCount(examples),
    formatPercent(accuracy),
    formatInterval(interval.low, interval.high),
  ]);
  const head = ["dataset", "examples", "accuracy", "95% CI"];
  const table = formatTable(io.stdout, rows, { head, numeric: [1, 2] });
  const warning = formatDegeneracyLine(io, glue.degeneracy, "accuracy on adversarial texts");
  return `${table}\nThe adversarial texts reduce accuracy by ${(drop * 100).toFixed(1)} points.\n${warning}`;
}
