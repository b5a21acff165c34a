import type { Command } from "@commander-js/extra-typings";
import { type Verification, verify, verifyRequestSchema } from "../../actions/verify/verify.js";
import { formatCount } from "../../format.js";
import { type Io, write } from "../io.js";
import { addOptions, endpointOption, quietOption, runtimeFlags } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "Each line is replayed: its edits must lead from the original to the final text,\n" +
  "and the model must return the recorded probabilities. Certificates are computed again.\n" +
  "The exit code is 2 if a line fails.";
export const examples = [
  "temper verify runs/sst2-standard-seed0",
  "temper verify runs/voting/certificates/hash-vote.jsonl",
  "temper verify attacks/endpoint/pwws.jsonl --model http://127.0.0.1:8080",
];

export function define(command: Command, io: Io): void {
  const { shape } = verifyRequestSchema;
  const withJournals = command.argument("<journals...>", shape.journals.description);
  addOptions(withJournals, shape, { model: "<reference>", substitutions: "<table>", ...runtimeFlags })
    .addOption(endpointOption())
    .option("--json", "print the verified journals as JSON")
    .addOption(quietOption())
    .action(async (journals, { json, quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      const verified = await verify({ journals, ...request }, callbacks).finally(callbacks.end);
      await (json ? printJson(io, verified) : write(io.stdout, verified.map(formatVerification).join("")));
    });
}

function formatVerification(verified: Awaited<ReturnType<typeof verify>>[number]): string {
  if ("outcomes" in verified) return formatAttack(verified);
  const { journal, header, lines } = verified;
  return `${journal}: all ${formatCount(lines)} certificates of ${header.certificate.kind} verified\n`;
}

function formatAttack({ journal, header, lines, outcomes, substitutions }: Verification): string {
  const edits = substitutions === null ? "" : `, every edit is in ${substitutions}`;
  const counts =
    `${formatCount(outcomes.success)} fooled, ${formatCount(outcomes.failed)} robust, ` +
    `${formatCount(outcomes.skipped)} misclassified before the attack`;
  return `${journal}: all ${formatCount(lines)} lines of ${header.attack} verified${edits} (${counts})\n`;
}
