import type { Command } from "@commander-js/extra-typings";
import { type MergeReport, merge, mergeRequestSchema } from "../../actions/merge.js";
import { formatNumber, formatPercent } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions, dataFlags, quietOption, runtimeFlags } from "../options.js";
import { formatTable, printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note =
  "wise-ft is a point on the line between the pre-trained and the fine-tuned weights (Wortsman et al. 2022, Robust\n" +
  "fine-tuning of zero-shot models). uniform and greedy are model soups (Wortsman et al. 2022, Model soups). The result\n" +
  "is a model folder, which every command accepts.";
export const examples = [
  "temper merge runs/rose --mode wise-ft --alpha 0.7 --out merged",
  "temper merge runs/rose-seed* --mode uniform --out soup",
  "temper merge runs/rose-seed* --mode greedy --out soup",
];

export function define(command: Command, io: Io): void {
  const { shape } = mergeRequestSchema;
  const required = { mode: "<name>", out: "<folder>" };
  const flags = {
    ...required,
    alpha: "<number>",
    pretrained: "<model>",
    ...dataFlags,
    split: "<name>",
    maxSamples: "<count>",
    seed: "<number>",
    ...runtimeFlags,
  };
  const described = addOptions(command.argument("<models...>", shape.models.description), shape, flags);
  for (const option of command.options) option.makeOptionMandatory(option.attributeName() in required);
  described
    .option("--json", "print the report as JSON")
    .addOption(quietOption())
    .action(async (models, { json, quiet, mode, out, ...rest }) => {
      const callbacks = createCallbacks(io, quiet);
      try {
        const report = await merge({ models, mode: mode!, out: out!, ...rest }, callbacks);
        callbacks.end();
        await (json ? printJson(io, report) : write(io.stdout, formatReport(io, report)));
      } finally {
        callbacks.end();
      }
    });
}

function formatReport(io: Io, { folder, models, split, accuracy }: MergeReport): string {
  const rows = models.map(({ model, weight, accuracy: own, degeneracy }) => [
    model,
    formatNumber(weight, 2),
    own === null ? "–" : degeneracy === null ? formatPercent(own) : "degenerate",
  ]);
  const table = formatTable(io.stdout, rows, { head: ["model", "weight", "accuracy"], numeric: [1, 2] });
  const measured = accuracy === null ? "" : ` Its accuracy on the ${split} split is ${formatPercent(accuracy)}.`;
  return `${table}\n\nThe merged model is in ${folder}.${measured}\n`;
}
