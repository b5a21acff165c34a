import type { Command } from "@commander-js/extra-typings";
import { type ExactReport, exact } from "../../actions/exact/exact.js";
import { exactRequestSchema } from "../../actions/exact/exact-request.js";
import { formatCount, formatNumber, formatPercent } from "../../base/format.js";
import { createPartRunner, shardOptions } from "../../jobs/attack-in-processes.js";
import { tabulateExact } from "../../runs/exact-folder.js";
import type { Io } from "../io.js";
import { addOptions, attackOption, endpointOption, quietOption, splitOption } from "../options.js";
import { formatDegeneracyLine, formatPath, formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { listenForStop } from "../signals.js";
import { runWork } from "../work.js";

export const note =
  "Every set of at most --max-changes substitutions is tried, so the accuracy is exact and not a bound. A stopped " +
  "evaluation continues with the same command. Without --task and --data, the task of the model's run is used.";
export const examples = [
  "temper exact runs/sst2-standard-seed0 --max-changes 2 --num-examples 100",
  "temper exact runs/sst2-ascc-seed0 --max-changes 3 --budget 1000000 --json",
  "temper exact runs/sst2-ascc-seed0 --max-changes 3 --processes 4",
  "temper exact runs/sst2-ascc-seed0 --attack pwws --attack greedy --attack genetic",
  "temper verify runs/sst2-standard-seed0/exact/k2-0123456789ab.jsonl --model runs/sst2-standard-seed0",
];

export function define(command: Command, io: Io): void {
  const { shape } = exactRequestSchema;
  const withSplit = command
    .argument("<model>", shape.model.description)
    .addOption(attackOption(shape.attacks.description!))
    .addOption(splitOption());
  const withRequest = addOptions(withSplit, shape, ["model", "attacks", "split", "endpoint"]);
  addOptions(withRequest, shardOptions)
    .option("--no-in-vocab-substitutes", "keep such substitutes")
    .option("--no-case-sensitive-substitutes", "substitute such words, too")
    .addOption(endpointOption())
    .option("--json", "print the report as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, attack: attacks, processes, ...request }) => {
      const stop = listenForStop(io);
      return runWork(
        io,
        { display: createCallbacks(io, quiet), stop, json },
        (callbacks) => {
          const runParts = createPartRunner("exact-parts", processes, stop.signal);
          return exact({ model, attacks, ...request }, { ...callbacks, runParts });
        },
        (report) => formatReport(io, report),
      );
    });
}

function formatReport(io: Io, report: ExactReport): string {
  const { examples: count, exact: levels, attacks, task, split, scored, proof } = report;
  const { repeated, textsPerSecond, degeneracy } = report;
  const warning = formatDegeneracyLine(io, degeneracy, "exact accuracy");
  const { head, rows } = tabulateExact(report);
  const open = levels.at(-1)!.open;
  const gaps = Object.entries(attacks)
    .map(
      ([name, { accuracyUnderAttack, gap, p }]) =>
        `${name}: accuracy under attack ${formatPercent(accuracyUnderAttack)}; ${formatPercent(gap)} of the ` +
        `texts can be fooled, but it did not (McNemar p = ${formatNumber(p, 2)})\n`,
    )
    .join("");
  const remark =
    open > 0
      ? `${formatCount(open)} texts are open: the budget ended before all their candidates were scored. They do not ` +
        "count as robust. Increase --budget to decide them.\n"
      : "";
  return (
    `${task} ${split}: ${formatCount(count)} examples, ${formatCount(scored)} texts scored, ${formatCount(repeated)} of ` +
    `them again in float32${textsPerSecond === null ? "" : `; ${formatNumber(textsPerSecond, 3)} texts/s`}\n\n` +
    `${formatTable(io.stdout, rows, { head, numeric: [0, 1, 2, 4, 6] })}\n\n${gaps}${remark}${warning}Proof: ${formatPath(proof)}\n`
  );
}
