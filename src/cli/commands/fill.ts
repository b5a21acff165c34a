import type { Command } from "@commander-js/extra-typings";
import { fill, fillRequestSchema } from "../../actions/fill.js";
import { formatNumber } from "../../base/format.js";
import { readInputs } from "../../text/read-inputs.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { formatTable, printJsonLine } from "../output.js";
import { textsArgument } from "./predict.js";

export const examples = [
  "echo 'A [MASK] film.' | temper fill bert-base-uncased",
  "temper fill bert-base-uncased texts.txt --top-k 10 --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = fillRequestSchema;
  const withTexts = command.argument("<model>", shape.model.description).argument("[file]", textsArgument, "-");
  addOptions(withTexts, shape, { topK: "<count>", device: "<name>", threads: "<count>" })
    .option("--json", "print one JSON line per text: texts, masks")
    .action(async (model, file, { json, ...request }) => {
      const inputs = readInputs(file, file === "-" ? io.stdin : undefined);
      for await (const { input, masks } of fill({ model, ...request, inputs })) {
        if (json) await printJsonLine(io, { texts: input.texts, masks });
        else {
          const rows = masks.flatMap((tokens, mask) =>
            tokens.map(({ token, probability }) => [String(mask + 1), formatNumber(probability, 3), token]),
          );
          const table = formatTable(io.stdout, rows, { head: ["mask", "probability", "token"], numeric: [0, 1] });
          await write(io.stdout, `${input.texts.join(" | ")}\n${table}\n`);
        }
      }
    });
}
