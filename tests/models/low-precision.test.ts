import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createEagerClassifier } from "../../src/models/classifier.js";
import { classify, type DeviceConfig, loadModel, type Model } from "../../src/models/index.js";
import { canQuantize, int8Dense, quantizeWeight } from "../../src/nn/index.js";
import { int8DenseResidualNorm } from "../../src/nn/int8-linear.js";
import {
  free,
  gelu,
  getMemoryStats,
  layerNormOp,
  noGrad,
  randn,
  scope,
  seedGenerator,
  tensor,
} from "../../src/tensor/index.js";
import { temporaryFolder } from "../temporary.js";
import { familyNames, writeFamilyClassifier } from "./family-models.js";

const folder = temporaryFolder();
const models = new Map<string, Model>();
afterAll(() => {
  for (const { weights } of models.values()) free(weights);
});

async function load(name: string): Promise<Model> {
  const model = models.get(name) ?? (await loadModel(writeFamilyClassifier(join(folder, name), name)));
  models.set(name, model);
  return model;
}

/** The largest difference between the probabilities of two configs. */
async function compare(model: Model, texts: readonly string[], changed: Partial<DeviceConfig>): Promise<number> {
  const encodings = texts.map((text) => model.tokenizer.encode([text], 12));
  const run = async (config: DeviceConfig): Promise<Float32Array[]> => {
    const classifier = createEagerClassifier(model, model.weights, config);
    const rows = await classify(classifier, encodings);
    classifier.close();
    return rows;
  };
  const exact: DeviceConfig = { device: "cpu", computeDtype: "float32" };
  const [wanted, found] = [await run(exact), await run({ ...exact, ...changed })];
  return Math.max(...wanted.flatMap((row, i) => [...row].map((value, k) => Math.abs(value - found[i]![k]!))));
}

const texts = ["good", "the plot was very good", "a cold and dull scene of the film"];

describe.each(familyNames)("%s", (name) => {
  // bfloat16 has 8 significant bits, so a product errs by 2^-9, and errors of a few layers add up.
  test("in bfloat16 gives nearly the probabilities of float32", async () => {
    const difference = await compare(await load(name), texts, { computeDtype: "bfloat16" });
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(0.03);
  });

  // An input is rounded to 127 levels, so its error is at most 1/126 of the largest value of its row.
  test.runIf(canQuantize())("in int8 gives nearly the probabilities of float32", async () => {
    const model = await load(name);
    const before = getMemoryStats().tensors;
    const difference = await compare(model, texts, { isQuantized: true });
    expect(difference).toBeGreaterThan(0);
    expect(difference).toBeLessThan(0.03);
    expect(getMemoryStats().tensors).toBe(before);
  });
});

describe.runIf(canQuantize())("products in 8 bits", () => {
  test("are those of the rounded numbers, row by row", () => {
    scope(() =>
      noGrad(() => {
        seedGenerator("cpu", 1);
        const [rows, width, columns] = [5, 48, 33];
        // Rows of very different size, one of zeros.
        const sizes = tensor([1, 1e-4, 0, 1e3, 1], [rows, 1]);
        const [input, weight, bias] = [randn([rows, width]).mul(sizes), randn([columns, width]), randn([columns])];
        const { packed, scales } = quantizeWeight(weight);
        const found = int8Dense(input, packed, scales, bias).toFloat32Array();
        const [x, w, b] = [input, weight, bias].map((each) => each.toFloat32Array()) as Float32Array[];
        const round = (row: Float32Array, levels: number): number[] => {
          const scale = Math.max(...row.map(Math.abs)) / levels;
          return Array.from(row, (value) => (scale === 0 ? 0 : Math.round(value / scale) * scale));
        };
        for (let i = 0; i < rows; i++) {
          const left = round(x!.subarray(i * width, (i + 1) * width), 63);
          for (let j = 0; j < columns; j++) {
            const right = round(w!.subarray(j * width, (j + 1) * width), 127);
            const products = left.map((value, k) => value * right[k]!);
            const expected = products.reduce((sum, product) => sum + product, b![j]!);
            const size = products.reduce((sum, product) => sum + Math.abs(product), 1);
            // A value in the middle of two levels may be rounded to either.
            expect(Math.abs(found[i * columns + j]! - expected)).toBeLessThan(2e-3 * size);
          }
        }
      }),
    );
  });

  test("can be followed by GELU in the same pass", () => {
    scope(() =>
      noGrad(() => {
        const [input, weight, bias] = [randn([9, 64]), randn([40, 64]), randn([40])];
        const { packed, scales } = quantizeWeight(weight);
        const found = int8Dense(input, packed, scales, bias, "gelu").toFloat32Array();
        const expected = gelu(int8Dense(input, packed, scales, bias), "none").toFloat32Array();
        for (const [i, value] of found.entries()) expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-5);
      }),
    );
  });

  test("can be followed by the residual and LayerNorm in the same pass", () => {
    scope(() =>
      noGrad(() => {
        // Widths with and without a rest after full vectors.
        for (const width of [40, 64]) {
          const [input, weight, bias, residual] = [
            randn([9, 64]),
            randn([width, 64]),
            randn([width]),
            randn([9, width]),
          ];
          const quantized = quantizeWeight(weight);
          const norm = { weight: randn([width]), bias: randn([width]), epsilon: 1e-5 };
          const found = int8DenseResidualNorm(input, { ...quantized, bias }, residual, norm);
          const sum = int8Dense(input, quantized.packed, quantized.scales, bias).add(residual);
          const expected = layerNormOp(sum, [width], norm.weight, norm.bias, norm.epsilon);
          expect(found.sub(expected).abs().amax([0, 1]).item()).toBeLessThan(1e-4);
        }
      }),
    );
  });

  test.each(["bert", "albert", "electra"])("of %s score a text alone as in a batch of other lengths", async (name) => {
    const model = await load(name);
    const encodings = texts.map((text) => model.tokenizer.encode([text], 12));
    const config = { device: "cpu", computeDtype: "float32", isQuantized: true } as const;
    const classifier = createEagerClassifier(model, model.weights, config);
    const together = await classify(classifier, encodings);
    // The head multiplies in float32, whose last bits depend on the number of rows.
    for (const [i, encoding] of encodings.entries()) {
      const [alone] = await classify(classifier, [encoding]);
      for (const [k, value] of alone!.entries()) expect(Math.abs(value - together[i]![k]!)).toBeLessThan(1e-6);
    }
    classifier.close();
  });

  test("do not depend on the other rows of a batch", () => {
    scope(() =>
      noGrad(() => {
        const [input, weight] = [randn([7, 64]), randn([16, 64])];
        const { packed, scales } = quantizeWeight(weight);
        const all = int8Dense(input, packed, scales, null).toFloat32Array();
        const one = int8Dense(input.narrow(0, 3, 1).mul(1), packed, scales, null).toFloat32Array();
        expect([...one]).toEqual([...all.subarray(3 * 16, 4 * 16)]);
      }),
    );
  });

  test("of numbers that are not finite are not finite", () => {
    scope(() =>
      noGrad(() => {
        const { packed, scales } = quantizeWeight(randn([16, 64]));
        const input = randn([2, 64]).mul(tensor([1, Number.NaN], [2, 1]));
        const found = int8Dense(input, packed, scales, null).toFloat32Array();
        expect(found.subarray(0, 16).every(Number.isFinite)).toBe(true);
        expect(found.subarray(16).some(Number.isFinite)).toBe(false);
      }),
    );
  });
});
