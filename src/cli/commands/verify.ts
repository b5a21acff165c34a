import type { Command } from "@commander-js/extra-typings";
import { verifyRequestSchema } from "../../actions/verify/verify.js";
import { verify } from "../../audit/verify-audit.js";
import { formatCount, formatPercent } from "../../base/format.js";
import type { VerifiedClass } from "../../base/verification.js";
import type { Io } from "../io.js";
import { addOptions, endpointOption, quietOption } from "../options.js";
import { createCallbacks } from "../progress.js";
import { runWork } from "../work.js";

export const note =
  "Computes each line again from model and text, and compares every field. The exit code is 2 if one differs.\n" +
  "attacks       words, edits, final texts, probabilities, successes and errors are computed again. That a text " +
  "is robust, and what the search cost, is only recorded: --repeat runs searches again.\n" +
  "proofs        candidates are listed again and random blocks (--blocks) are scored again.\n" +
  "certificates  every certificate is computed again.\n" +
  "results       the test texts of a run are classified again, and every number of its test result is computed.\n" +
  "audits        every claim of audit.json is computed again, and its journals and proofs are replayed.\n" +
  "The summary beside a journal is computed again, too. The output counts what was computed again, and after " +
  '"not verified" what nothing but the file says, such as validation results, thresholds and analyses.';
export const examples = [
  "temper verify runs/sst2-standard-seed0",
  "temper verify runs/sst2-standard-seed0 --repeat 50",
  "temper verify runs/voting/certificates/hash-vote.jsonl",
  "temper verify runs/sst2-ascc-seed0/exact/k2-0123456789ab.jsonl --blocks 300",
  "temper verify audit/audit.json",
  "temper verify attacks/endpoint/pwws.jsonl --model http://127.0.0.1:8080",
];

export function define(command: Command, io: Io): void {
  const { shape } = verifyRequestSchema;
  const withJournals = command.argument("<journals...>", shape.journals.description);
  addOptions(withJournals, shape, ["journals", "endpoint"])
    .addOption(endpointOption())
    .option("--json", "print the verified journals as JSON")
    .addOption(quietOption())
    .action((journals, { json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet), json },
        (callbacks) => verify({ journals, ...request }, callbacks),
        (verified) => verified.map(formatVerification).join(""),
      ),
    );
}

type Verified = Awaited<ReturnType<typeof verify>>[number];

function formatVerification(verification: Verified): string {
  const { journal, classes } = verification;
  const table = "substitutions" in verification ? verification.substitutions : null;
  const edits = table === null ? "" : `; every substitute is in ${table}`;
  return `${journal}: ${formatClasses(classes)}${edits}\n${"blocks" in verification ? formatDetection(verification) : ""}`;
}

/** The verified facts first, then those that nothing but the file says. */
function formatClasses(classes: readonly VerifiedClass[]): string {
  const [verified, recorded] = [true, false].map((wanted) =>
    classes
      .filter(({ isVerified }) => isVerified === wanted)
      .map(({ count, what }) => `${formatCount(count)} ${what}`)
      .join(", "),
  );
  return [verified, recorded && `not verified: ${recorded}`].filter((part) => part !== "").join("; ");
}

function formatDetection({ detection }: Extract<Verified, { readonly blocks: number }>): string {
  const found = detection.map(
    ({ falseFraction, probability }) => `${formatPercent(falseFraction, 0)}: ${formatPercent(probability)}`,
  );
  return `probability that a proof with this fraction of false blocks is found: ${found.join(", ")}\n`;
}
