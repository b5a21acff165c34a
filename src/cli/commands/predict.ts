import { type Command, Option } from "@commander-js/extra-typings";
import { predict, predictRequestSchema } from "../../actions/predict/predict.js";
import { findTextColumns } from "../../actions/predict/text-classifier.js";
import {
  checkPredictionsPath,
  type InputPrediction,
  roundProbability,
  writePredictions,
} from "../../actions/predict/write-predictions.js";
import { readTexts } from "../../tasks/read-texts.js";
import { type Io, write } from "../io.js";
import { addOptions, appendValue, quietOption } from "../options.js";
import { printJsonLine } from "../output.js";
import { createCallbacks, createTextProgress } from "../progress.js";

const textsArgument = 'one text per line, or JSON lines {"text": …} or {"texts": [a, b]}; "-": standard input';

export const note = "Files that end in .csv, .tsv or .parquet are tables. Their other columns are passed through.";
export const examples = [
  "echo 'A quiet film.' | temper predict runs/sst2-standard-seed0",
  "temper predict runs/reviews new.csv --text-column review --out predicted.csv",
  "temper predict runs/sst2-standard-seed0 texts.jsonl --json > labels.jsonl",
];

export function define(command: Command, io: Io): void {
  const { shape } = predictRequestSchema;
  const textColumn = new Option("--text-column <column>", "column of the text in a table (two for a pair); repeatable");
  const withTexts = command
    .argument("<model>", shape.model.description)
    .argument("[file]", textsArgument, "-")
    .addOption(textColumn.argParser(appendValue))
    .option("--out <file>", "write a table (.csv, .tsv or .jsonl): the columns of the input and the predictions");
  addOptions(withTexts, shape, ["model", "flushWhenIdle"])
    .option("--json", "print one JSON line per text: text, label, probabilities by label")
    .addOption(quietOption())
    .action(async (model, file, { json, quiet, out, textColumn: given = [], ...request }) => {
      if (out !== undefined) checkPredictionsPath(out, file);
      const isPiped = file === "-";
      const columns = given.length > 0 || !/\.(csv|tsv|parquet)$/i.test(file) ? given : await findTextColumns(model);
      const inputs = readTexts(file, columns, isPiped ? io.stdin : undefined);
      const callbacks = createCallbacks(io, quiet);
      const progress = createTextProgress(io, "predict", quiet);
      let done = 0;
      const showRow = (): void => progress.update(++done);
      try {
        const predictions = predict({ model, flushWhenIdle: isPiped, ...request }, inputs, callbacks);
        if (out !== undefined) await writePredictions(out, predictions, showRow);
        else
          for await (const prediction of predictions) {
            await (json ? printJsonLine(io, toJson(prediction)) : write(io.stdout, toLine(prediction)));
            showRow();
          }
      } finally {
        progress.end();
        callbacks.end();
      }
    });
}

function toJson({ input: { texts }, label, probabilities, flagged, certified, hidden }: InputPrediction): object {
  const rounded = Object.entries(probabilities).map(([name, value]) => [name, roundProbability(value)]);
  return {
    ...(texts.length === 1 ? { text: texts[0] } : { texts }),
    label,
    probabilities: Object.fromEntries(rounded),
    ...(flagged !== undefined && { flagged }),
    ...(certified && { certified }),
    ...(hidden && { hidden }),
  };
}

function toLine({ input, label, probabilities }: InputPrediction): string {
  // Line breaks and tabs inside a text would look like more lines and columns.
  const texts = input.texts.map((text) => text.replace(/[\t\r\n]+/g, " "));
  return `${label}\t${(probabilities[label] ?? 0).toFixed(4)}\t${texts.join("\t")}\n`;
}
