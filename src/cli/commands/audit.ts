import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { type AuditCallbacks, audit } from "../../audit/audit.js";
import { auditRequestSchema } from "../../audit/audit-request.js";
import { type AuditResult, auditFiles } from "../../audit/audit-result.js";
import { Interrupted } from "../../base/errors.js";
import { interruptedExitCode } from "../../base/processes.js";
import { formatCommandLine } from "../../base/shell.js";
import { ExitCode } from "../command.js";
import { getColors, type Io, write } from "../io.js";
import { addOptions, dataFlags, endpointOption, quietOption, runtimeFlags } from "../options.js";
import { formatPath, formatTable, printJson } from "../output.js";
import { createCallbacks } from "../progress.js";
import { stopOnSignals } from "../signals.js";

export const note =
  "Measures accuracy, attacks, proofs, input handling and data within the time, and prints the plan first.\n" +
  "The same command continues a stopped audit, and with more --minutes it adds what did not fit.\n" +
  "temper verify OUT/audit.json computes every claim again.";
export const examples = [
  "temper audit runs/reviews --minutes 10",
  "temper audit model.onnx --data test.csv --text-column text --label-column label --train-data train.csv",
  "temper audit runs/spam --positive-label spam --out audits/spam",
  "temper audit http://127.0.0.1:8080 --data test.csv --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = auditRequestSchema;
  addOptions(command.argument("<model>", shape.model.description), shape, {
    ...dataFlags,
    trainData: "<file>",
    sliceColumn: "<column>",
    positiveLabel: "<label>",
    minutes: "<number>",
    attacks: "--attack <name[:key=value,…]>",
    numExamples: "<count>",
    queryBudget: "<count>",
    maxChanges: "<count>",
    substitutions: "<source>",
    minContextSimilarity: "<number>",
    seed: "<number>",
    out: "<folder>",
    ...runtimeFlags,
  })
    .addOption(endpointOption())
    .option("--json", "print verdict, findings, clean and underAttack as JSON")
    .addOption(quietOption())
    .action(async (model, { json, quiet, ...request }) => {
      const stop = stopOnSignals(io);
      stop.listen();
      const callbacks = createCallbacks(io, quiet);
      const steps: AuditCallbacks = {
        onPlan: (rows) => {
          if (quiet) return;
          const stream = json ? io.stderr : io.stdout;
          stream.write(`${formatTable(stream, rows, { head: ["plan", ""] })}\n\n`);
        },
      };
      try {
        const result = await audit({ model, ...request }, { ...callbacks, ...steps, signal: stop.signal });
        callbacks.end();
        const { verdict, findings, clean, underAttack } = result;
        if (json) return await printJson(io, { verdict, findings, clean, underAttack });
        await write(io.stdout, formatResult(io, result, request.out ?? auditRequestSchema.shape.out.parse(undefined)));
      } catch (error) {
        if (!(error instanceof Interrupted)) throw error;
        callbacks.end();
        const again = formatCommandLine(["temper", ...process.argv.slice(2)]);
        io.stderr.write(`${error.message}\nContinue with: ${again}\n`);
        throw new ExitCode(interruptedExitCode);
      } finally {
        callbacks.end();
        stop.close();
      }
    });
}

function formatResult(io: Io, { verdict, findings }: AuditResult, out: string): string {
  const { bold } = getColors(io.stdout);
  const rows = findings.map(({ severity, id, evidence }) => [severity!, id, evidence.summary]);
  const table = rows.length === 0 ? "" : `${formatTable(io.stdout, rows, { head: ["severity", "finding", ""] })}\n\n`;
  return `${table}${bold(verdict)}\n\nPage: ${formatPath(join(out, auditFiles.page))}\n`;
}
