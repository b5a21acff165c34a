import { join } from "node:path";
import { env, pipeline, type TextClassificationPipeline } from "@huggingface/transformers";
import { InferenceSession, Tensor as OnnxTensor } from "onnxruntime-node";
import { expect, it, test } from "vitest";
import {
  forward,
  loadModel,
  type Model,
  predictProbabilities,
  tokenizeAll,
  toModelInput,
} from "../../src/models/index.js";
import { evalMode } from "../../src/nn/index.js";
import type { OnnxNode } from "../../src/onnx/onnx-file.js";
import { type ExportedModel, exportGraph, exportToOnnx, writeExport } from "../../src/onnx/write-export.js";
import { free, noGrad, scope } from "../../src/tensor/index.js";
import { type PaddedBatch, padBatch } from "../../src/text/batch.js";
import { familyNames, writeFamilyClassifier } from "../models/family-models.js";
import { expectClose, measureAsyncSpread, measureSpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const temporary = temporaryFolder();

/** Random texts of the given lengths. The token types differ if the model has any. */
function createBatch({ architecture: { config }, tokenizer }: Model, lengths: readonly number[]): PaddedBatch {
  const types = (config as { typeVocabSize?: number }).typeVocabSize ?? 0;
  return padBatch(
    lengths.map((length, row) => ({
      ids: Int32Array.from({ length }, (_, i) => 5 + ((row * 31 + i * 17 + i * i) % (config.vocabSize - 5))),
      tokenTypeIds: Int32Array.from({ length }, (_, i) => (types > 1 && i > length / 2 ? 1 : 0)),
      truncated: false,
    })),
    tokenizer.special.padId,
  );
}

async function runOnnx(session: InferenceSession, batch: PaddedBatch): Promise<Float32Array> {
  const shape = [batch.batchSize, batch.sequenceLength];
  const toTensor = (values: ArrayLike<number>) =>
    new OnnxTensor("int64", BigInt64Array.from(Array.from(values, BigInt)), shape);
  const feeds: Record<string, OnnxTensor> = {
    input_ids: toTensor(batch.ids),
    attention_mask: toTensor(batch.attentionMask),
    ...(session.inputNames.includes("token_type_ids") && { token_type_ids: toTensor(batch.tokenTypeIds) }),
  };
  return (await session.run(feeds)).logits!.data as Float32Array;
}

function computeLogits(model: Model, batch: PaddedBatch): Float32Array {
  const input = () => toModelInput(batch, model.architecture.config, "cpu");
  return scope(() =>
    noGrad(() => forward(model.architecture, model.weights, input(), evalMode).logits.toFloat32Array()),
  );
}

async function expectSameLogits(model: Model, exported: ExportedModel): Promise<void> {
  const session = await InferenceSession.create(exported.model);
  const { maxLength } = model.architecture.config;
  const longest = Math.min(maxLength, 160);
  for (const lengths of [[1], [5, 2, 9], [longest], [3, longest, longest - 1, 2]]) {
    const batch = createBatch(model, lengths);
    const compute = (): Float32Array => computeLogits(model, batch);
    expectClose(await runOnnx(session, batch), compute(), { spread: measureSpread(compute) }, `${lengths}`);
  }
  await session.release();
}

const texts = ["the film was a quiet one.", "no", "A plot; of ideas, and ( more ) words!"];

/** Compares with the pipeline of transformers.js, which reads only the files of the folder. */
async function expectSamePipeline(model: Model, name: string): Promise<void> {
  env.allowRemoteModels = false;
  env.localModelPath = temporary;
  const classify = (await pipeline("text-classification", name, { dtype: "fp32" })) as TextClassificationPipeline;
  const answers = (await classify(texts, { top_k: null } as never)) as unknown as { label: string; score: number }[][];
  const encodings = tokenizeAll(
    model,
    texts.map((text) => [text]),
  );
  const compute = () => predictProbabilities(model, model.weights, encodings);
  const found = answers.map((answer) =>
    model.labels.map((label) => answer.find((each) => each.label === label)!.score),
  );
  expectClose(found, await compute(), { spread: await measureAsyncSpread(compute) });
  await classify.dispose();
}

it.each(familyNames)("%s has the same outputs in ONNX Runtime and transformers.js, for any batch", async (name) => {
  const folder = writeFamilyClassifier(join(temporary, name), name);
  for (const options of [{}, { head: "mlp", pooling: "mean" }] as const) {
    const model = await loadModel(folder, options);
    const exported = await exportToOnnx(model, { quantize: false, version: "test" });
    await expectSameLogits(model, exported);
    if (!("head" in options)) {
      await writeExport(join(temporary, `${name}-onnx`), exported);
      await expectSamePipeline(model, `${name}-onnx`);
    }
    free(model.weights);
  }
});

it("a pooler has the same outputs, too", async () => {
  const model = await loadModel(writeFamilyClassifier(join(temporary, "pooler"), "bert"), {
    head: "mlp",
    pooling: "pooler",
  });
  await expectSameLogits(model, await exportToOnnx(model, { quantize: false, version: "test" }));
  free(model.weights);
});

// ONNX Runtime's optimizer makes one Attention node per layer of this (docs/guide/deploy.md).
test("attention has the form that ONNX Runtime's optimizer fuses", async () => {
  const model = await loadModel(writeFamilyClassifier(join(temporaryFolder(), "bert"), "bert"));
  const { nodes, initializers } = exportGraph(model, model.weights);
  free(model.weights);
  const getNode = (name: string): OnnxNode => nodes.find(({ outputs }) => outputs.includes(name))!;
  const follow = (node: OnnxNode, index: number, ...operators: string[]): OnnxNode =>
    operators.reduce((at, operator, i) => {
      const next = getNode(at.inputs[i === 0 ? index : 0]!);
      expect(next.operator).toBe(operator);
      return next;
    }, node);
  // The last layer computes only the first token, so it has another form.
  const [softmax] = nodes.filter(({ operator }) => operator === "Softmax");
  expect(softmax!.attributes.axis).toBe(3);
  const scores = follow(softmax!, 0, "Add");
  const product = follow(scores, 0, "Div", "MatMul");
  const heads = { query: follow(product, 0, "Transpose"), key: follow(product, 1, "Transpose") };
  expect(heads.query.attributes.perm).toEqual([0, 2, 1, 3]);
  expect(heads.key.attributes.perm).toEqual([0, 2, 3, 1]);
  for (const transpose of Object.values(heads)) {
    const reshape = follow(transpose, 0, "Reshape");
    expect(initializers.get(reshape.inputs[1]!)?.shape).toEqual([4]);
    follow(reshape, 0, "Add", "MatMul", "LayerNormalization");
  }
  // (1 - mask) · bias
  const difference = follow(scores, 1, "Mul", "Sub");
  expect(initializers.has(difference.inputs[0]!)).toBe(true);
  follow(difference, 1, "Cast", "Unsqueeze", "Unsqueeze");
});
