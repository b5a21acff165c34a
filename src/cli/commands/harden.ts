import { type Command, Option } from "@commander-js/extra-typings";
import { formatCount, formatPercent, formatRoughDuration } from "../../base/format.js";
import { interruptedExitCode } from "../../base/processes.js";
import { formatCommandLine, toFlag } from "../../base/shell.js";
import type { HardenPlan, HardenTime } from "../../harden/harden.js";
import { type HardenCallbacks, type HardenResult, hardenFromFlags } from "../../harden/harden.js";
import { hardenRequestSchema } from "../../harden/harden-request.js";
import { Interrupted } from "../../train/index.js";
import { ExitCode } from "../command.js";
import { getColors, type Io, write } from "../io.js";
import { addOptions, dataFlags, groupOptions, quietOption, runtimeFlags } from "../options.js";
import { formatPath, formatTable, printJson } from "../output.js";
import { stopOnSignals } from "../signals.js";
import { createTrainProgress } from "../train-progress.js";
import { createAttackProgress } from "./attack.js";

export const note =
  "Trains a standard and a robust model, attacks both on the same texts, compares them and writes OUT/report.html.\n" +
  "Every choice is printed with its reason and the flag that replaces it. The same command continues a stopped one.";
export const examples = [
  "temper harden --data reviews.csv",
  "temper harden --data reviews.csv --text-column review --label-column stars --out runs/reviews",
  "temper harden --task spam --attacked-label spam --attack pwws --attack deepwordbug --out runs/spam",
];

export function define(command: Command, io: Io): void {
  const { data, textColumn, labelColumn, labelMap, task, skipBadRows } = dataFlags;
  const withRequest = addOptions(command, hardenRequestSchema.shape, {
    // The flags of the short help come first.
    ...{ data, textColumn, labelColumn, labelMap, task },
    minutes: "<number>",
    model: "<reference>",
    method: "<name[:key=value,…]>",
    epochs: "<number>",
    attacks: "--attack <name[:key=value,…]>",
    numExamples: "<count>",
    attackedLabel: "<label>",
    out: "<folder>",
    resume: "",
    skipBadRows,
    validationData: "<file>",
    testData: "<file>",
    tokenization: "<name>",
    substitutions: "<table>",
    maxLength: "<tokens>",
    maxTrainSamples: "<count>",
    batchSize: "<count>",
    learningRate: "<rate>",
    minContextSimilarity: "<number>",
    seed: "<number>",
    ...runtimeFlags,
  });
  groupOptions(withRequest.options, hardenRequestSchema);
  withRequest
    .option("--no-resume", "stop with an error if the folder already has runs")
    .addOption(new Option("--json", "print the accuracies and the verdict as JSON").helpGroup("Result:"))
    .addOption(quietOption().helpGroup("Result:"))
    .action(async ({ json, quiet, ...request }) => {
      const stop = stopOnSignals(io);
      const progress = createHardenProgress(io, { quiet, onStart: stop.listen, onAttack: stop.close });
      const { bold } = getColors(io.stdout);
      // With --json, stdout has the result only.
      const stream = json ? io.stderr : io.stdout;
      try {
        const result = await hardenFromFlags(request, {
          ...progress.callbacks,
          signal: stop.signal,
          onPlan: (plan, time) => {
            progress.end();
            if (!quiet) stream.write(formatPlan({ ...io, stdout: stream }, plan, time, request.minutes != null));
          },
        });
        progress.end();
        const { standard, robust, verdict } = result;
        if (json) return await printJson(io, { standard, robust, verdict });
        await write(io.stdout, formatResult(io, result, bold));
      } catch (error) {
        if (!(error instanceof Interrupted)) throw error;
        progress.end();
        const again = formatCommandLine(["temper", ...process.argv.slice(2)]);
        io.stderr.write(`${error.message}\nContinue with: ${again}\n`);
        throw new ExitCode(interruptedExitCode);
      } finally {
        progress.end();
        stop.close();
      }
    });
}

/** Shows the trainings and the attacks one after the other, each with the display of its own command. */
function createHardenProgress(
  io: Io,
  { quiet, onStart, onAttack }: { quiet: boolean | undefined; onStart: () => void; onAttack: () => void },
): { callbacks: HardenCallbacks; end(): void } {
  const training = () => ({ display: createTrainProgress(io, { quiet, onStart }), onAttackStart: undefined });
  const attacking = () => {
    const { callbacks, end } = createAttackProgress(io, quiet);
    return { display: { onEvent: callbacks.onEvent!, end }, onAttackStart: callbacks.onAttackStart };
  };
  let current: ReturnType<typeof training> | ReturnType<typeof attacking> = training();
  let stages = 0;
  return {
    callbacks: {
      onStage(kind, sentence) {
        current.display.end();
        // During an attack, a signal ends the process: every finished text is in its journal.
        if (kind === "attack") onAttack();
        if (!quiet) io.stderr.write(`\n${++stages}/4 ${sentence}\n`);
        current = kind === "train" ? training() : attacking();
      },
      onEvent: (event) => current.display.onEvent(event),
      onAttackStart: (...start) => current.onAttackStart?.(...start),
    },
    end: () => current.display.end(),
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
    `${formatTable(io.stdout, rows, { head: ["choice", "", "why", "change it with"] })}\n${formatTime(time, hasLimit)}`
  );
}

/** Longer than this, a hint says how to choose a shorter time. */
const patientSeconds = 600;

function formatTime(time: HardenTime | null, hasLimit: boolean): string {
  if (time === null) return "";
  const { standard, robust, attacks, total } = time;
  const parts = Object.entries({ "standard model": standard, "robust model": robust, attacks }).flatMap(
    ([name, seconds]) => (seconds > 0 ? [`${name} ${formatRoughDuration(seconds)}`] : []),
  );
  const hint = total > patientSeconds && !hasLimit ? " --minutes 10 chooses sizes that take about ten minutes." : "";
  return `\nAbout ${formatRoughDuration(total)} on this machine, measured on a few steps: ${parts.join(", ")}.${hint}\n`;
}

function formatResult(io: Io, result: HardenResult, bold: (text: string) => string): string {
  const { standard, robust, plan, comparisons, verdict, warnings, report } = result;
  const examples = comparisons.find(({ metric }) => metric !== "accuracy")?.examples ?? plan.numExamples;
  const rows = Object.entries({ standard, robust }).map(([name, { clean, underAttack }]) => [
    name,
    formatPercent(clean),
    formatPercent(underAttack),
  ]);
  const head = [`accuracy on ${formatCount(examples)} texts`, "before the attack", "under attack"];
  const { yellow } = getColors(io.stdout);
  const remarks = [...new Set(warnings)].map((message) => `${yellow("!")} ${message}\n`).join("");
  return (
    `\n${formatTable(io.stdout, rows, { head, numeric: [1, 2] })}\n\n${bold(verdict)}\n\n${remarks}` +
    `Report: ${formatPath(report)}\n`
  );
}
