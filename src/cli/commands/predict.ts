import type { Command } from "@commander-js/extra-typings";
import { type Prediction, predict, predictRequestSchema } from "../../runs/text-classifier.js";
import { readInputs, type TextInput } from "../../text/read-inputs.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption, runtimeFlags } from "../options.js";
import { printJsonLine } from "../output.js";
import { createCallbacks, createTextProgress } from "../progress.js";

/** The description of the argument that names texts. */
export const textsArgument = 'one text per line, or JSON lines {"text": …} or {"texts": [a, b]}; "-": standard input';

export const examples = [
  "echo 'A quiet film.' | temper predict runs/sst2-standard-seed0",
  "temper predict runs/sst2-standard-seed0 texts.jsonl --json > labels.jsonl",
];

export function define(command: Command, io: Io): void {
  const { shape } = predictRequestSchema;
  const withTexts = command.argument("<model>", shape.model.description).argument("[file]", textsArgument, "-");
  addOptions(withTexts, shape, runtimeFlags)
    .option("--json", "print one JSON line per text: text, label, probabilities by label")
    .addOption(quietOption())
    .action(async (model, file, { json, quiet, ...runtime }) => {
      const isPiped = file === "-";
      const inputs = readInputs(file, isPiped ? io.stdin : undefined);
      const callbacks = createCallbacks(io, quiet);
      const progress = createTextProgress(io, "predict", quiet);
      let done = 0;
      try {
        for await (const prediction of predict({ model, flushWhenIdle: isPiped, ...runtime }, inputs, callbacks)) {
          await (json ? printJsonLine(io, toJson(prediction)) : write(io.stdout, toLine(prediction)));
          progress.update(++done);
        }
      } finally {
        progress.end();
        callbacks.end();
      }
    });
}

type InputPrediction = Prediction & { readonly input: TextInput };

function toJson({ input: { texts }, label, probabilities }: InputPrediction): object {
  // More digits depend on the other texts of the batch.
  const rounded = Object.entries(probabilities).map(([name, value]) => [name, Number(value.toPrecision(6))]);
  return {
    ...(texts.length === 1 ? { text: texts[0] } : { texts }),
    label,
    probabilities: Object.fromEntries(rounded),
  };
}

function toLine({ input, label, probabilities }: InputPrediction): string {
  // Line breaks and tabs inside a text would look like more lines and columns.
  const texts = input.texts.map((text) => text.replace(/[\t\r\n]+/g, " "));
  return `${label}\t${(probabilities[label] ?? 0).toFixed(4)}\t${texts.join("\t")}\n`;
}
