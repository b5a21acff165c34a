import { z } from "zod";
import { type Callbacks, warn } from "../base/events.js";
import { checkNewFolder } from "../base/files.js";
import { softmax } from "../base/softmax.js";
import { countSchema, orNull, validate } from "../base/validate.js";
import { toPredictions } from "../evaluation/metrics.js";
import { classify, type Model, predictProbabilities, tokenizeAll } from "../models/index.js";
import { findOnnxRuntime } from "../onnx/find-onnx-runtime.js";
import { openOnnxClassifier } from "../onnx/onnx-classifier.js";
import { type ExportedModel, exportToOnnx, writeExport } from "../onnx/write-export.js";
import { createCalibrationFiles } from "../runs/calibration.js";
import { readPackageVersion } from "../runs/environment.js";
import { createConfigFile } from "../runs/run-files.js";
import { RunFolder } from "../runs/run-folder.js";
import { dataOptions } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { drawRandomly } from "../tasks/sample.js";
import { loadRequestedTask } from "./load/load-task.js";
import { loadClassifier, type TextClassifier } from "./predict/text-classifier.js";

export const exportRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  to: z.enum(["onnx"]).default("onnx").describe("the format"),
  out: z.string().describe("a new folder for the exported model"),
  quantize: orNull(z.enum(["int8"]), "float32 only").describe("int8 also writes a model with 8-bit weights"),
  ...dataOptions,
  numExamples: countSchema.default(64).describe("texts of the test split to compare with the exported model"),
  threads: runtimeOptions.threads,
});
export interface ExportComparison {
  /** The largest difference of any probability. */
  readonly maxDifference: number;
  readonly sameLabels: number;
}

export interface ExportReport {
  readonly folder: string;
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
  /** The comparison on texts of the task in ONNX Runtime; null if it was not checked. */
  readonly check: {
    readonly texts: number;
    readonly model: ExportComparison;
    readonly quantized: ExportComparison | null;
  } | null;
  readonly problem: string | null;
}

/**
 * Writes a classifier as an ONNX file with its tokenizer, in the layout that transformers.js and
 * Optimum read, and compares it with the original.
 *
 *     const { check } = await exportModel({ model: "runs/ascc", out: "exported", quantize: "int8" });
 */
export async function exportModel(
  request: z.input<typeof exportRequestSchema>,
  callbacks: Callbacks = {},
): Promise<ExportReport> {
  const parsed = validate(exportRequestSchema, request, "export");
  const { model: reference, out, quantize, threads } = parsed;
  await checkNewFolder(out);
  await using classifier = await loadClassifier(reference, {
    device: "cpu",
    threads,
    onEvent: callbacks.onEvent,
  });
  const votes = classifier.use.certified !== null;
  if (votes)
    warn(
      callbacks,
      "The ONNX file classifies one sub-text. Temper adds the vote if it runs the exported folder; other programs do not.",
    );
  const options = { quantize: quantize === "int8", version: readPackageVersion(), votes };
  const graph = await exportToOnnx(classifier.model, options);
  const run = await RunFolder.containing(classifier.model.folder);
  if (classifier.model.normalize === "canonical")
    warn(
      callbacks,
      "The model reads canonical forms. Temper adds them if it runs the exported folder; other programs must call " +
        "canonicalize of temper-nlp/certificates first.",
    );
  const settings = run ? [createConfigFile(out, run.config), ...(await createCalibrationFiles(run.folder))] : [];
  const exported = { ...graph, files: [...graph.files, ...settings] };
  const checked = await checkExport(classifier, exported, parsed, callbacks);
  await writeExport(out, exported);
  const files = exported.files.map(({ path, content }) => ({ path, bytes: Buffer.byteLength(content) }));
  return { folder: out, files, ...checked };
}

async function checkExport(
  { model, runtime: { threads } }: TextClassifier,
  exported: ExportedModel,
  request: z.output<typeof exportRequestSchema>,
  callbacks: Callbacks,
): Promise<Pick<ExportReport, "check" | "problem">> {
  const found = findOnnxRuntime();
  if ("problem" in found) return { check: null, problem: found.problem };
  const texts = await sampleTexts(model, request, callbacks);
  if (texts === null)
    return { check: null, problem: "the task of the model is unknown; name one with --task or --data" };
  const encodings = tokenizeAll(model, texts);
  const expected = await predictProbabilities(model, model.weights, encodings);
  const compare = async (bytes: Uint8Array, isQuantized: boolean): Promise<ExportComparison> => {
    const { labels, reference: name } = model;
    const { padId } = model.tokenizer.special;
    const onnx = await openOnnxClassifier(found.runtime, bytes, { name, labels, padId, threads, isQuantized });
    try {
      return compareRows(expected, (await classify(onnx, encodings)).map(softmax));
    } finally {
      onnx.close();
    }
  };
  const quantized = exported.quantized ? await compare(exported.quantized, true) : null;
  return { check: { texts: texts.length, model: await compare(exported.model, false), quantized }, problem: null };
}

async function sampleTexts(
  model: Model,
  request: z.output<typeof exportRequestSchema>,
  callbacks: Callbacks,
): Promise<(readonly string[])[] | null> {
  const run = await RunFolder.containing(model.folder);
  const isKnown = request.task !== null || request.data !== null || run !== null || model.task !== null;
  if (!isKnown) return null;
  const task = await loadRequestedTask(request, model, run, callbacks);
  return drawRandomly(await task.load("test"), request.numExamples, 0).map(({ texts }) => texts);
}

function compareRows(expected: readonly Float32Array[], actual: readonly Float32Array[]): ExportComparison {
  const differences = expected.map((row, i) =>
    row.reduce((largest, value, j) => Math.max(largest, Math.abs(value - actual[i]![j]!)), 0),
  );
  const [labels, others] = [toPredictions(expected), toPredictions(actual)];
  return {
    maxDifference: Math.max(0, ...differences),
    sameLabels: labels.filter((label, i) => label === others[i]).length / labels.length,
  };
}
