import type { Command } from "@commander-js/extra-typings";
import { type Verification, verify, verifyRequestSchema } from "../../actions/verify/verify.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions, endpointOption, quietOption, runtimeFlags } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "Each line is replayed: its edits must lead from the original to the final text,\n" +
  "and the model must return the recorded probabilities. Of a proof, all candidates are\n" +
  "listed again, and random blocks are scored again. Certificates are computed again.\n" +
  "The exit code is 2 if a line fails.\n" +
  "This proves every text that fooled the model. A text that is recorded as robust is only as robust as the\n" +
  "journal says, unless --repeat runs its search again, with the recorded settings and seed.";
export const examples = [
  "temper verify runs/sst2-standard-seed0",
  "temper verify runs/sst2-standard-seed0 --repeat 50",
  "temper verify runs/voting/certificates/hash-vote.jsonl",
  "temper verify runs/sst2-ascc-seed0/exact/k2-0123456789ab.jsonl --blocks 300",
  "temper verify attacks/endpoint/pwws.jsonl --model http://127.0.0.1:8080",
];

export function define(command: Command, io: Io): void {
  const { shape } = verifyRequestSchema;
  const withJournals = command.argument("<journals...>", shape.journals.description);
  addOptions(withJournals, shape, {
    model: "<reference>",
    substitutions: "<table>",
    repeat: "<count>",
    blocks: "<count>",
    seed: "<number>",
    ...runtimeFlags,
  })
    .addOption(endpointOption())
    .option("--json", "print the verified journals as JSON")
    .addOption(quietOption())
    .action(async (journals, { json, quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      const verified = await verify({ journals, ...request }, callbacks).finally(callbacks.end);
      await (json ? printJson(io, verified) : write(io.stdout, verified.map(formatVerification).join("")));
    });
}

function formatVerification(verification: Awaited<ReturnType<typeof verify>>[number]): string {
  if ("blocks" in verification) return formatProof(verification);
  if ("outcomes" in verification) return formatAttack(verification);
  const { journal, header, lines } = verification;
  return `${journal}: all ${formatCount(lines)} certificates of ${header.certificate.kind} verified\n`;
}

function formatAttack({
  journal,
  header,
  lines,
  outcomes,
  substitutions,
  repeated,
}: Extract<Verification, { outcomes: unknown }>): string {
  const edits = substitutions === null ? "" : `, every edit is in ${substitutions}`;
  const counts =
    `${formatCount(outcomes.success)} fooled, ${formatCount(outcomes.failed)} recorded as robust ` +
    `(${repeated ? formatCount(repeated.robust) : "not"} searched again), ` +
    `${formatCount(outcomes.skipped)} misclassified before the attack`;
  const searches = repeated
    ? `; ${formatCount(repeated.searches)} searches repeated with the same outcomes, ${formatCount(repeated.identical)} ` +
      "with the same queries and texts"
    : "";
  return `${journal}: all ${formatCount(lines)} lines of ${header.attack} verified${edits} (${counts})${searches}\n`;
}

function formatProof(proof: Extract<Verification, { readonly blocks: number }>): string {
  const { journal, texts, blocks, checkedBlocks, identicalBlocks, detection, substitutions } = proof;
  const space = substitutions === null ? "" : `, every candidate is in ${substitutions}`;
  const different = checkedBlocks - identicalBlocks;
  const bits = different > 0 ? ` (${formatCount(different)} differ in the last bits of their scores)` : "";
  const found = detection.map(
    ({ falseFraction, probability }) => `${formatPercent(falseFraction, 0)}: ${formatPercent(probability)}`,
  );
  return (
    `${journal}: all lines of ${formatCount(texts)} texts are complete${space}; ${formatCount(checkedBlocks)} of ` +
    `${formatCount(blocks)} blocks were scored again and agree${bits}\n` +
    `probability that a proof with this fraction of false blocks is found: ${found.join(", ")}\n`
  );
}
