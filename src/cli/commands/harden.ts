import { type Command, Option } from "@commander-js/extra-typings";
import type { TemperEvent } from "../../base/events.js";
import { formatCount, formatPercent, formatRoughDuration } from "../../base/format.js";
import { toFlag } from "../../base/shell.js";
import type { HardenPlan, HardenTime } from "../../harden/harden.js";
import { type HardenCallbacks, type HardenResult, hardenFromFlags } from "../../harden/harden.js";
import { hardenRequestSchema } from "../../harden/harden-request.js";
import { getColors, type Io } from "../io.js";
import { addOptions, attackFlag, groupOptions, quietOption } from "../options.js";
import { formatPath, formatTable, formatText } from "../output.js";
import { stopOnSignals } from "../signals.js";
import { createTrainProgress } from "../train-progress.js";
import { runWork } from "../work.js";
import { createAttackProgress } from "./attack.js";

export const note =
  "Trains a standard and a robust model, attacks both on the same texts, compares them and writes OUT/report.html. " +
  "Every choice is printed with its reason and the flag that replaces it. The same command continues a stopped one.";
export const examples = [
  "temper harden --data reviews.csv",
  "temper harden --data reviews.csv --text-column review --label-column stars --out runs/reviews",
  "temper harden --task spam --attacked-label spam --attack pwws --attack deepwordbug --out runs/spam",
];

export function define(command: Command, io: Io): void {
  const withRequest = addOptions(command, hardenRequestSchema.shape, [], { attacks: attackFlag });
  groupOptions(withRequest.options, hardenRequestSchema);
  withRequest
    .option("--no-resume", "stop with an error if the folder already has runs")
    .addOption(new Option("--json", "print the accuracies and the verdict as JSON").helpGroup("Result:"))
    .addOption(quietOption().helpGroup("Result:"))
    .action(({ json, quiet, ...request }) => {
      const stop = stopOnSignals(io);
      const display = createHardenProgress(io, quiet, stop.listen);
      // With --json, stdout has the result only.
      const stream = json ? io.stderr : io.stdout;
      return runWork(
        io,
        { display, stop, json, select: selectSummary },
        (callbacks) =>
          hardenFromFlags(request, {
            ...callbacks,
            onPlan(plan, time) {
              display.end();
              if (!quiet) stream.write(formatPlan({ ...io, stdout: stream }, plan, time, request.minutes != null));
            },
          }),
        (result) => formatResult(io, result),
      );
    });
}

function selectSummary({ standard, robust, verdict }: HardenResult): object {
  return { standard, robust, verdict };
}

function createHardenProgress(io: Io, quiet: boolean | undefined, onStart: () => void) {
  let current: HardenCallbacks & { end(): void } = createTrainProgress(io, { quiet, onStart });
  let stages = 0;
  return {
    onStage(kind: "train" | "attack", sentence: string): void {
      current.end();
      if (!quiet) io.stderr.write(`\n${++stages}/4 ${sentence}\n`);
      current =
        kind === "train" ? createTrainProgress(io, { quiet, onStart }) : createAttackProgress(io, quiet, onStart);
    },
    onEvent: (event: TemperEvent): void => current.onEvent?.(event),
    onAttackStart: (...start: Parameters<NonNullable<HardenCallbacks["onAttackStart"]>>): void =>
      current.onAttackStart?.(...start),
    end: (): void => current.end(),
  };
}

function formatPlan(
  io: Io,
  { task, classes, choices }: HardenPlan,
  time: HardenTime | null,
  hasLimit: boolean,
): string {
  const splits = ["train", "validation", "test"] as const;
  const counts = classes.map((each) => [each.label, ...splits.map((split) => formatCount(each[split]))]);
  const head = [`label of ${task}`, ...splits];
  const rows = choices.map(({ name, value, reason, key }) => [
    name,
    value,
    reason,
    key === "attacks" ? "--attack" : toFlag(key),
  ]);
  return (
    `${formatTable(io.stdout, counts, { head, numeric: [1, 2, 3] })}\n\n` +
    `${formatTable(io.stdout, rows, { head: ["choice", "", "why", "change it with"] })}\n${formatTime(io, time, hasLimit)}`
  );
}

/** Longer than this, a hint says how to choose a shorter time. */
const patientSeconds = 600;

function formatTime(io: Io, time: HardenTime | null, hasLimit: boolean): string {
  if (time === null) return "";
  const { standard, robust, attacks, total } = time;
  const parts = Object.entries({ "standard model": standard, "robust model": robust, attacks }).flatMap(
    ([name, seconds]) => (seconds > 0 ? [`${name} ${formatRoughDuration(seconds)}`] : []),
  );
  const hint = total > patientSeconds && !hasLimit ? " --minutes 10 chooses sizes that take about ten minutes." : "";
  const text = `About ${formatRoughDuration(total)} on this machine, measured on a few steps: ${parts.join(", ")}.${hint}`;
  return `\n${formatText(io.stdout, text)}\n`;
}

function formatResult(io: Io, result: HardenResult): string {
  const { standard, robust, plan, comparisons, verdict, warnings, report } = result;
  const examples = comparisons.find(({ metric }) => metric !== "accuracy")?.examples ?? plan.numExamples;
  const rows = Object.entries({ standard, robust }).map(([name, { clean, underAttack }]) => [
    name,
    formatPercent(clean),
    formatPercent(underAttack),
  ]);
  const head = [`accuracy on ${formatCount(examples)} texts`, "before the attack", "under attack"];
  const { bold, yellow } = getColors(io.stdout);
  const remarks = [...new Set(warnings)]
    .map((message) => `${formatText(io.stdout, `${yellow("!")} ${message}`)}\n`)
    .join("");
  return (
    `\n${formatTable(io.stdout, rows, { head, numeric: [1, 2] })}\n\n${bold(formatText(io.stdout, verdict))}\n\n${remarks}` +
    `Report: ${formatPath(report)}\n`
  );
}
