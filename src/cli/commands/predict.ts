import type { Command } from "@commander-js/extra-typings";
import { formatCount } from "../../format.js";
import { type Prediction, predictTexts } from "../../runs/predict.js";
import { free } from "../../tensor/index.js";
import { readInputs, type TextInput } from "../../text/read-inputs.js";
import { type Io, write } from "../io.js";
import { type ClassifierOptions, loadClassifier } from "../load-classifier.js";
import {
  deviceOption,
  formatHelpExamples,
  jsonOption,
  precisionOption,
  quietOption,
  threadsOption,
} from "../options.js";
import { printJsonLine } from "../output.js";
import { createProgress } from "../progress.js";

interface PredictCommandOptions extends ClassifierOptions {
  json?: true | undefined;
}

export function define(command: Command, io: Io): void {
  command
    .argument("<model>", "a run folder, its model/, npm:PACKAGE or a hub name")
    .argument(
      "[file]",
      'texts: a text a line, or JSON lines {"text": …} or {"texts": [a, b]}; "-" is the standard input',
      "-",
    )
    .addOption(jsonOption("a JSON line a text: text, label, probabilities by label"))
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      formatHelpExamples(
        "echo 'A quiet film.' | temper predict runs/sst2-standard-seed0",
        "temper predict runs/sst2-standard-seed0 texts.jsonl --json > labels.jsonl",
      ),
    )
    .action((model, file, options) => predict(io, model, file, options));
}

async function predict(io: Io, reference: string, file: string, options: PredictCommandOptions): Promise<void> {
  const { model, machine } = await loadClassifier(io, reference, options);
  try {
    const piped = file === "-";
    const inputs = readInputs(file, piped ? io.stdin : undefined);
    // On a terminal the lines themselves show how it goes.
    const progress = createProgress({
      label: "predict",
      unit: "texts",
      quiet: options.quiet || io.stdout.isTTY === true,
      stream: io.stderr,
    });
    let [done, cut] = [0, 0];
    try {
      for await (const prediction of predictTexts(model, inputs, machine, { flushWhenIdle: piped })) {
        if (prediction.truncated) cut++;
        await (options.json ? printJsonLine(io, toJson(prediction)) : write(io.stdout, toLine(prediction)));
        progress.update(++done);
      }
    } finally {
      progress.end();
    }
    if (cut > 0 && !options.quiet) {
      const what = cut === 1 ? "1 text was" : `${formatCount(cut)} texts were`;
      io.stderr.write(`note: ${what} longer than ${model.maxLength} tokens and cut there\n`);
    }
  } finally {
    free(model.weights);
  }
}

function toJson({ input, label, probabilities }: Prediction<TextInput>): object {
  const [text] = input.texts;
  const given = input.texts.length === 1 ? { text } : { texts: input.texts };
  // What more digits would say depends on the company that a text was computed in.
  const rounded = Object.fromEntries(
    Object.entries(probabilities).map(([name, value]) => [name, Number(value.toPrecision(6))]),
  );
  return { ...given, label, probabilities: rounded };
}

function toLine({ input, label, probabilities }: Prediction<TextInput>): string {
  // Texts of JSON lines may have line breaks and tabs of their own, which would make lines and columns of them.
  const texts = input.texts.map((text) => text.replace(/[\t\r\n]+/g, " "));
  return `${label}\t${(probabilities[label] ?? 0).toFixed(4)}\t${texts.join("\t")}\n`;
}
