import type { Command } from "@commander-js/extra-typings";
import { type ExportComparison, type ExportReport, exportModel, exportRequestSchema } from "../../actions/export.js";
import { formatBytes, formatNumber, formatPercent } from "../../base/format.js";
import type { Io } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { formatTable } from "../output.js";
import { createCallbacks } from "../progress.js";
import { runWork } from "../work.js";

export const note =
  "The folder has the layout of transformers.js and Optimum: onnx/model.onnx, config.json and the tokenizer. If " +
  "onnxruntime-node is installed, the exported model is compared with the original on texts of the task.";
export const examples = [
  "temper export runs/ascc --to onnx --out exported",
  "temper export runs/ascc --to onnx --quantize int8 --out exported",
];

export function define(command: Command, io: Io): void {
  const { shape } = exportRequestSchema;
  addOptions(command.argument("<model>", shape.model.description), shape, ["model", "out"])
    .requiredOption("--out <folder>", shape.out.description)
    .option("--json", "print the files and the comparison as JSON")
    .addOption(quietOption())
    .action((model, { json, quiet, ...request }) =>
      runWork(
        io,
        { display: createCallbacks(io, quiet), json },
        (callbacks) => exportModel({ model, ...request }, callbacks),
        (report) => formatReport(io, report),
      ),
    );
}

function formatReport(io: Io, { folder, files, check, problem }: ExportReport): string {
  const rows = files.map(({ path, bytes }) => [`${folder}/${path}`, formatBytes(bytes)]);
  const table = formatTable(io.stdout, rows, { head: ["file", "size"], numeric: [1] });
  if (!check) return `${table}\n\nThe exported model was not checked: ${problem}.\n`;
  const describe = (name: string, { maxDifference, sameLabels }: ExportComparison): string =>
    `${name}: the largest difference of a probability is ${formatNumber(maxDifference, 2)}; ` +
    `${formatPercent(sameLabels)} of the texts have the same label.`;
  const lines = [
    `Compared with the original on ${check.texts} texts in ONNX Runtime:`,
    describe("model.onnx", check.model),
    ...(check.quantized ? [describe("model_quantized.onnx", check.quantized)] : []),
  ];
  return `${table}\n\n${lines.join("\n")}\n`;
}
