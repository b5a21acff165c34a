import { type Command, Option } from "@commander-js/extra-typings";
import { type AttackReport, attack } from "../../actions/attack/attack.js";
import { type AttackCallbacks, attackRequestSchema } from "../../actions/attack/attack-request.js";
import { attackNames } from "../../attacks/load-attack.js";
import { UserError } from "../../base/errors.js";
import type { TemperEvent } from "../../base/events.js";
import { formatCount, formatInterval, formatNumber, formatPercent } from "../../base/format.js";
import { tabulateAttacks } from "../../evaluation/attack-numbers.js";
import { describeMetric } from "../../evaluation/metric-table.js";
import { describePower } from "../../evaluation/statistics.js";
import { worstCaseId } from "../../evaluation/worst-case.js";
import { createPartRunner, shardOptions } from "../../jobs/attack-in-processes.js";
import { RunFolder } from "../../runs/run-folder.js";
import { attackInput } from "../attack-text.js";
import { getColors, type Io } from "../io.js";
import {
  addOptions,
  appendValue,
  attackOption,
  endpointOption,
  groupOptions,
  quietOption,
  splitOption,
} from "../options.js";
import { formatNext, formatPath, formatTable } from "../output.js";
import { type CommandCallbacks, createCallbacks } from "../progress.js";
import { stopOnSignals } from "../signals.js";
import { runWork } from "../work.js";

export const note = "Without --task and --data, the task of the model's run is used.";
export const examples = [
  "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --num-examples 100",
  "temper attack runs/imdb-rift-seed0 --attack genetic:population=60 --lm-constraint imdb.lm.json",
  "temper attack http://127.0.0.1:8080 --task sst2 --substitutions wordnet --out attacks/endpoint",
  "temper attack runs/sst2-standard-seed0 --attack pwws --attack genetic --resume",
  'temper attack runs/sst2-standard-seed0 --attack textfooler --input "a quiet film" --true-label positive',
];

export function define(command: Command, io: Io): void {
  const { shape } = attackRequestSchema;
  const withAttack = command
    .argument("<model>", shape.model.description)
    .addOption(attackOption(`${attackNames.join(", ")}, or the path of a custom attack (.js)`).helpGroup("Attack:"))
    .addOption(
      new Option("--input <text>", "attack this text and show the steps; two for a pair")
        .argParser(appendValue)
        .helpGroup("Data:"),
    )
    .addOption(splitOption().helpGroup("Data:"))
    .addOption(new Option("--json", "print the report as JSON").helpGroup("Result:"))
    .addOption(quietOption().helpGroup("Result:"));
  const withRequest = addOptions(withAttack, shape, ["model", "attacks", "split", "cache", "endpoint"]);
  groupOptions(withRequest.options, attackRequestSchema);
  addOptions(withRequest, shardOptions)
    .option("--no-checks", "leave out these checks")
    .option("--no-in-vocab-substitutes", "keep such substitutes")
    .option("--no-case-sensitive-substitutes", "substitute such words, too")
    .option("--no-cache", "neither read scores from disk nor store them")
    .addOption(endpointOption())
    .option("--true-label <label>", "label of the text (default: the predicted one)")
    .action((model, options) => {
      const { json, quiet, attack: attacks, input, trueLabel, processes, ...given } = options;
      const request = { model, attacks, ...given };
      if (input) return attackInput(io, request, input, trueLabel);
      if (trueLabel !== undefined)
        throw new UserError("--true-label is about the text of --input. Pass it, too, or omit --true-label.");
      const stop = stopOnSignals(io);
      const runShards = createPartRunner("attack-shards", processes, stop.signal);
      if (runShards) stop.listen();
      return runWork(
        io,
        { display: createAttackProgress(io, quiet, stop.listen), stop, json },
        (callbacks) => attack(request, { ...callbacks, runShards }),
        async (report) => {
          // Other models have no run whose texts could be shown.
          const hasTexts = !quiet && (await RunFolder.containing(model));
          return formatReport(io, report) + (hasTexts ? formatNext(["show", formatPath(model)]) : "");
        },
      );
    });
}

/** A hard search can take minutes, so the display is updated between results, too. */
const refreshMilliseconds = 1000;

export function createAttackProgress(
  io: Io,
  quiet: boolean | undefined,
  onStart?: () => void,
): AttackCallbacks & CommandCallbacks {
  const display = createCallbacks(io, quiet);
  let done = 0;
  let [stage, examples, isOther] = ["", 0, false];
  let show: ((done: number) => void) | undefined;
  const timer = setInterval(() => show?.(done), refreshMilliseconds).unref();
  const showOther = (event: Extract<TemperEvent, { type: "progress" }>): void => {
    isOther = event.done < event.total;
    display.onEvent(event);
    if (!isOther && show) display.start(stage, done, examples, "examples");
  };
  return {
    ...display,
    onAttackStart(name, start, total, counters) {
      onStart?.();
      if (start > 0)
        display.printLine(`${name}: ${formatCount(start)} of ${formatCount(total)} examples are already done`);
      if (start === total) return;
      const [startTime, evaluations] = [performance.now(), counters.evaluations];
      stage = `attack ${name}`;
      display.start(stage, start, total, "examples");
      [done, examples] = [start, total];
      show = (count) => {
        if (isOther) return;
        const speed = (counters.evaluations - evaluations) / ((performance.now() - startTime) / 1000);
        const texts = formatCount(counters.evaluations - evaluations);
        display.update(stage, count, total, { texts, "texts/s": formatNumber(speed, 3) });
      };
    },
    onEvent(event) {
      if (event.type !== "progress") return display.onEvent(event);
      if (event.stage !== stage) return showOther(event);
      done = event.done;
      show?.(done);
      if (done === event.total) show = undefined;
    },
    end() {
      clearInterval(timer);
      display.end();
    },
  };
}

function formatReport(io: Io, report: AttackReport): string {
  const { attacks, examples, clean, labels, space, task, split, request } = report;
  const { worstCase, worstCaseInterval: interval, worstCaseExamples = examples } = report;
  const names = Object.keys(attacks);
  const worst = `${formatCount(worstCaseExamples)}  (95% CI ${formatInterval(interval.low, interval.high)})`;
  const correct = Math.round(clean * examples);
  const attackedLabel = typeof request.attackedLabel === "string" ? request.attackedLabel : null;
  const size = (value: number): string => formatNumber(value, 3);
  const head = [
    ["model", String(request.model)],
    ["examples", `${formatCount(examples)} of ${task} ${split}; ${formatCount(correct)} are correct before the attack`],
    // One attack is its own worst case.
    ...(names.length > 1
      ? [[describeMetric(worstCaseId, attackedLabel).title, `${formatPercent(worstCase)} of ${worst}`]]
      : []),
    [
      "attack space",
      `${size(space.modifiableWords)} of ${size(space.words)} words are modifiable` +
        // The candidates of a recipe depend on the text so far.
        (space.substitutes > 0 ? `, ${size(space.substitutes)} substitutes each: ${space.combinations} texts` : ""),
    ],
    ["journals", formatPath(String(request.out))],
  ];
  const { yellow } = getColors(io.stdout);
  const remarks = [...listRemarks(report), ...report.sanity.map(({ message }) => `${yellow("!")} ${message}`)];
  const measured = Object.values(attacks).map((summary) => ({ summary, examples, clean, labels }));
  const rows = tabulateAttacks(measured, attackedLabel).map(({ title, cells }) => [title, ...cells]);
  const table = formatTable(io.stdout, rows, { head: ["", ...names], numeric: names.map((_, i) => i + 1) });
  return `${formatTable(io.stdout, head)}\n\n${table}\n\n${remarks.map((line) => `${line}\n`).join("")}`;
}

function listRemarks({ attacks, examples, worstCase, coverage }: AttackReport): string[] {
  return [
    describePower(examples, { accuracy: worstCase }),
    ...(coverage
      ? [
          `The language-model constraint covers ${coverage.covered} of ${coverage.total} texts. ` +
            "Only these can be attacked.",
        ]
      : []),
    ...Object.entries(attacks).flatMap(([name, { checks = [] }]) =>
      checks
        .filter(({ isPassed }) => isPassed !== false && checks.some((check) => check.isPassed !== null))
        .map((check) => `Check of ${name}, ${check.name}: ${check.isPassed ? "passed" : "not run"}: ${check.message}.`),
    ),
    ...Object.entries(attacks).flatMap(([name, { exact = examples, nearTies }]) =>
      [
        exact < examples &&
          `${name} is exhaustive for ${exact} of ${examples} examples. For others, its accuracy is an upper bound.`,
        nearTies.length > 0 &&
          `${name}: ${nearTies.length} of ${examples} examples have a margin below 0.0001. ` +
            `Other batches may change them: ${nearTies.slice(0, 5).join(", ")}${nearTies.length > 5 ? ", …" : ""}`,
      ].filter((remark) => remark !== false),
    ),
  ];
}
