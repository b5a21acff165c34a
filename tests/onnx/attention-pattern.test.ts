import { join } from "node:path";
import { expect, test } from "vitest";
import { loadModel } from "../../src/models/index.js";
import type { OnnxNode } from "../../src/onnx/onnx-file.js";
import { exportGraph } from "../../src/onnx/write-export.js";
import { free } from "../../src/tensor/index.js";
import { writeFamilyClassifier } from "../models/family-models.js";
import { temporaryFolder } from "../temporary.js";

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
