// Exports a model and compares it with the original in ONNX Runtime and transformers.js.
// Usage: node tools/check-export.mjs [RUN]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { env, pipeline } from "@huggingface/transformers";
import { exportModel } from "../dist/actions/export.js";
import { loadClassifier, loadTask } from "../dist/index.js";

const run = process.argv[2] ?? "runs/demo/standard";
const numTexts = 500;
const folder = mkdtempSync(join(tmpdir(), "temper-export-"));
const failures = [];
const expect = (isTrue, message) => {
  console.log(`${isTrue ? "ok" : "FAILED"}  ${message}`);
  if (!isTrue) failures.push(message);
};

try {
  const out = join(folder, "exported");
  const { check, problem } = await exportModel({ model: run, out, quantize: "int8", numExamples: numTexts });
  if (!check) throw new Error(problem);
  const { model, quantized, texts: count } = check;
  expect(
    model.maxDifference < 1e-4,
    `model.onnx: largest difference ${model.maxDifference.toExponential(1)}, ${count} texts`,
  );
  expect(
    quantized.sameLabels >= 0.99,
    `model_quantized.onnx: same label on ${(100 * quantized.sameLabels).toFixed(1)}%`,
  );

  env.allowRemoteModels = false;
  env.localModelPath = dirname(out);
  const classifier = await loadClassifier(run);
  const task = await loadTask({ task: classifier.model.task });
  // transformers.js cuts off the last special token of a truncated text, so only whole texts are compared.
  const texts = (await task.load("test")).map((example) => example.texts[0]).slice(0, numTexts);
  const predictions = await classifier.classify(texts);
  await classifier[Symbol.asyncDispose]();
  const whole = texts.flatMap((text, i) => (predictions[i].truncated ? [] : [{ text, ...predictions[i] }]));
  for (const [dtype, limit] of [
    ["fp32", 1e-4],
    ["q8", 1],
  ]) {
    const classify = await pipeline("text-classification", basename(out), { dtype });
    let [largest, same] = [0, 0];
    for (const { text, label, probabilities } of whole) {
      const answers = await classify(text, { top_k: null });
      same += Number(answers[0].label === label);
      for (const { label: name, score } of answers) largest = Math.max(largest, Math.abs(score - probabilities[name]));
    }
    const numbers = `largest difference ${largest.toExponential(1)}, same label on ${same} of ${whole.length} texts`;
    expect(whole.length > 0 && largest < limit && same >= 0.99 * whole.length, `transformers.js ${dtype}: ${numbers}`);
    await classify.dispose();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failures.length > 0 ? 1 : 0;
