import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { audit } from "../../audit/audit.js";
import { auditRequestSchema } from "../../audit/audit-request.js";
import { type AuditResult, auditFiles } from "../../audit/audit-result.js";
import { getColors, type Io } from "../io.js";
import { addOptions, attackFlag, endpointOption, quietOption } from "../options.js";
import { formatPath, formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { listenForStop } from "../signals.js";
import { runWork } from "../work.js";

export const note =
  "Measures accuracy, attacks, proofs, input handling and data within the time, and prints the plan first. " +
  "The same command continues a stopped audit, and with more --minutes it adds what did not fit. " +
  "temper verify OUT/audit.json computes every claim again.";
export const examples = [
  "temper audit runs/reviews --minutes 10",
  "temper audit model.onnx --data test.csv --text-column text --label-column label --train-data train.csv",
  "temper audit runs/spam --positive-label spam --out audits/spam",
  "temper audit http://127.0.0.1:8080 --data test.csv --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = auditRequestSchema;
  const withModel = command.argument("<model>", shape.model.description);
  addOptions(withModel, shape, ["model", "endpoint"], { attacks: attackFlag })
    .addOption(endpointOption())
    .option("--json", "print verdict, findings, clean and underAttack as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, ...request }) => {
      const onPlan = (rows: readonly (readonly string[])[]): void => {
        const stream = json ? io.stderr : io.stdout;
        if (!quiet) stream.write(`${formatTable(stream, rows, { head: ["plan", ""] })}\n\n`);
      };
      return runWork(
        io,
        { display: createCallbacks(io, quiet), stop: listenForStop(io), json, select: selectContract },
        (callbacks) => audit({ model, ...request }, { ...callbacks, onPlan }),
        (result) => formatResult(io, result, request.out ?? auditRequestSchema.shape.out.parse(undefined)),
      );
    });
}

function selectContract({ verdict, findings, clean, underAttack }: AuditResult): object {
  return { verdict, findings, clean, underAttack };
}

function formatResult(io: Io, { verdict, findings }: AuditResult, out: string): string {
  const { bold } = getColors(io.stdout);
  const rows = findings.map(({ severity, id, evidence }) => [severity!, id, evidence.summary]);
  const table = rows.length === 0 ? "" : `${formatTable(io.stdout, rows, { head: ["severity", "finding", ""] })}\n\n`;
  return `${table}${bold(verdict)}\n\nPage: ${formatPath(join(out, auditFiles.page))}\n`;
}
