import type { Command } from "@commander-js/extra-typings";
import { augment, augmentRequestSchema } from "../../actions/augment.js";
import { formatCount } from "../../base/format.js";
import { type Io, write } from "../io.js";
import { addOptions, dataFlags, quietOption, splitOption } from "../options.js";
import { printJson } from "../output.js";
import { createCallbacks } from "../progress.js";

export const note = "The new dataset is a .jsonl file with the columns text (or those of a pair) and label.";
export const examples = [
  "temper augment reviews.csv --label-column stars --recipe eda --per-text 4 --out augmented.jsonl",
  "temper augment --task sst2 --recipe characters --out augmented.jsonl",
  "temper augment reviews.csv --recipe mlm --masked-lm bert-base-uncased --out augmented.jsonl",
];

export function define(command: Command, io: Io): void {
  const { shape } = augmentRequestSchema;
  const { data: _, ...columns } = dataFlags;
  const withSplit = command
    .argument("[data]", shape.data.description)
    .addOption(splitOption("train"))
    .requiredOption("--out <file>", shape.out.description);
  addOptions(withSplit, shape, {
    recipe: "<name>",
    perText: "<count>",
    rate: "<fraction>",
    excludeOriginal: "",
    seed: "<number>",
    ...columns,
    substitutions: "<table>",
    vectors: "<file>",
    maskedLm: "<model>",
  })
    .option("--json", "print the result as JSON")
    .addOption(quietOption())
    .action(async (data, { json, quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      const result = await augment({ ...(data !== undefined && { data }), ...request }, callbacks).finally(
        callbacks.end,
      );
      const { out, originals, changed, unchanged } = result;
      const text =
        `${out}: ${formatCount(changed)} changed and ${formatCount(originals)} original texts` +
        `${unchanged > 0 ? `; ${formatCount(unchanged)} texts could not be changed` : ""}\n`;
      await (json ? printJson(io, result) : write(io.stdout, text));
    });
}
