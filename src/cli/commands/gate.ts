import type { Command } from "@commander-js/extra-typings";
import { gate } from "../../actions/gate/gate.js";
import { gateRequestSchema } from "../../actions/gate/gate-request.js";
import { formatCheck } from "../../actions/gate/judge.js";
import { describeGate, type GateReport } from "../../actions/gate/report.js";
import { UserError } from "../../base/errors.js";
import { ExitCode } from "../command.js";
import { type Io, removeControls } from "../io.js";
import { addOptions, attackFlag, endpointOption, quietOption, splitOption } from "../options.js";
import { formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { runWork } from "../work.js";

export const note =
  "Exit codes: 0 passed, 1 regressed, 2 could not be measured or decided, 3 internal error.\n" +
  "The folder --out gets junit.xml, summary.md (with the worst new failures as diffs) and gate.json.";
export const examples = [
  "temper gate runs/new --baseline runs/old --attack pwws --num-examples 200 --max-drop 2 --lock gate.lock",
  "temper gate runs/new --baseline gate.lock --max-drop 2 --min-robust 60",
  "temper gate runs/voting --baseline gate.lock --min-certified 60 --edits 1",
  "temper gate http://127.0.0.1:8080/ --baseline gate.lock",
];

const exitCodes = { passed: 0, regressed: 1, unresolved: 2 };
const internalError = 3;

export function define(command: Command, io: Io): void {
  const { shape } = gateRequestSchema;
  const withModel = command.argument("<model>", shape.model.description);
  addOptions(withModel, shape, ["model", "baseline", "split", "endpoint"], { attacks: attackFlag })
    .requiredOption("--baseline <model>", shape.baseline.description)
    .addOption(splitOption())
    .addOption(endpointOption())
    .option("--json", "print the verdict and the checks as JSON")
    .addOption(quietOption())
    .action(async (model, { json, quiet, ...request }) => {
      let code = 0;
      await runWork(
        io,
        { display: createCallbacks(io, quiet), json, select: omitTexts },
        async (callbacks) => {
          const report = await gate({ model, ...request }, callbacks).catch((error) => rejectInternally(io, error));
          code = exitCodes[report.verdict];
          return report;
        },
        (report) => formatReport(io, report),
      );
      if (code !== 0) throw new ExitCode(code);
    });
}

function omitTexts({ failures: _, ...rest }: GateReport): object {
  return rest;
}

/** A bug must not look like a verdict. */
function rejectInternally({ stderr }: Io, error: unknown): never {
  if (error instanceof UserError) throw error;
  const text = error instanceof Error ? (error.stack ?? error.message) : error;
  stderr.write(removeControls(`temper: internal error: ${text}\n`));
  throw new ExitCode(internalError);
}

function formatReport(io: Io, report: GateReport): string {
  const head = ["check", "baseline", "candidate", "texts", "95% bounds", "required", "verdict"];
  const rows = report.checks.map(formatCheck);
  return `${formatTable(io.stdout, rows, { head, numeric: [1, 2, 3] })}\n\n${describeGate(report)}\n`;
}
