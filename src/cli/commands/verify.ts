import type { Command } from "@commander-js/extra-typings";
import { type Verification, verify, verifyRequestSchema } from "../../actions/verify/verify.js";
import { formatCount } from "../../format.js";
import { type Io, write } from "../io.js";
import { addOptions, endpointOption, quietOption, runtimeFlags } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "Each line is replayed: its edits must lead from the original to the final text,\n" +
  "and the model must return the recorded probabilities. The exit code is 2 if a line fails.\n" +
  "This proves every text that fooled the model. The searches are not repeated: a text that is recorded as\n" +
  "robust is only as robust as the journal says. To check that, attack again with the same --seed.";
export const examples = ["temper verify runs/sst2-standard-seed0/attacks/pwws.jsonl --model runs/sst2-standard-seed0"];

export function define(command: Command, io: Io): void {
  const { shape } = verifyRequestSchema;
  const withModel = command
    .argument("<journals...>", shape.journals.description)
    .requiredOption("--model <reference>", shape.model.description);
  addOptions(withModel, shape, { substitutions: "<table>", ...runtimeFlags })
    .addOption(endpointOption())
    .option("--json", "print the verified journals as JSON")
    .addOption(quietOption())
    .action(async (journals, { json, quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      const verified = await verify({ journals, ...request }, callbacks).finally(callbacks.end);
      await (json ? printJson(io, verified) : write(io.stdout, verified.map(formatVerification).join("")));
    });
}

function formatVerification({ journal, header, lines, outcomes, substitutions }: Verification): string {
  const edits = substitutions === null ? "" : `, every edit is in ${substitutions}`;
  const counts =
    `${formatCount(outcomes.success)} fooled, ${formatCount(outcomes.failed)} recorded as robust (not searched again), ` +
    `${formatCount(outcomes.skipped)} misclassified before the attack`;
  return `${journal}: all ${formatCount(lines)} lines of ${header.attack} verified${edits} (${counts})\n`;
}
