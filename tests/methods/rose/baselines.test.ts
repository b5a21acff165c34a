import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freelb } from "../../../src/methods/freelb.js";
import { computeProximalLoss, computeSmoothnessLoss, searchPerturbation, smart } from "../../../src/methods/smart.js";
import { embedBatchWords } from "../../../src/methods/word-embedding-input.js";
import { embedInput } from "../../../src/models/index.js";
import { evalMode } from "../../../src/nn/index.js";
import { free, grad, noGrad, scope, type Tensor } from "../../../src/tensor/index.js";
import { toBatch, toHostBatch } from "../../../src/train/batch-transfer.js";
import type { BatchContext, Gradients } from "../../../src/train/index.js";
import { StepBatch } from "../../../src/train/step-batch.js";
import { type ActiveTraining, createTrainingContext } from "../../../src/train/training-context.js";
import { expectClose, expectComputed } from "../../rounding.js";
import { tinyDataset, tinyJob, tinyModel } from "../tiny.js";
import { fixture, toTensor, toTensors } from "./fixture.js";

const model = tinyModel(fixture.model.config, toTensors(fixture.model.weights));
const { weights } = model;
const table = weights.get("bert.embeddings.word_embeddings.weight") as Tensor;
const query = weights.get("bert.encoder.layer.0.attention.self.query.weight") as Tensor;
let training: ActiveTraining;

beforeAll(async () => {
  const settings = { batchSize: 2, dropout: false };
  training = await createTrainingContext(tinyJob(model, [], { train: tinyDataset(fixture.texts) }, settings));
});
afterAll(() => training.close());

/** The first three texts as a batch. */
function createContext(): BatchContext {
  const host = toHostBatch(training.job, Int32Array.from([0, 1, 2]));
  return new StepBatch(training, toBatch(training.job, host), 0);
}

describe("SMART", () => {
  const { stepSize, epsilon, steps, start, cases, slow } = fixture.smart;

  test.each(["paper", "code"] as const)(
    "computes inner steps with projection: %s, and the smoothness term",
    (projection) => {
      const options = smart.options.parse({ stepSize, epsilon, steps, projection });
      const expected = cases[projection];
      const compute = (): ReadonlyMap<string, Tensor> => {
        const [first, second] = [createContext(), createContext()];
        const words =
          projection === "paper"
            ? embedBatchWords(first, "perturbed")
            : embedInput(model.architecture.config, weights, first.batch.input, evalMode);
        const noise = searchPerturbation(first, words, first.pass("clean").logits, toTensor(start), options);
        const term = computeSmoothnessLoss(second, second.pass("clean").logits, () => toTensor(start), options);
        const [tableGradient, queryGradient] = grad(term, [table, query]) as [Tensor, Tensor];
        return new Map(Object.entries({ noise, smoothness: term, table: tableGradient, query: queryGradient }));
      };
      expectComputed(compute, expected);
    },
  );

  test("projection: code has the step size and the epsilon of the released code", () => {
    const search = (options: object): number[] =>
      scope(() => {
        const context = createContext();
        const clean = context.pass("clean").logits;
        const embeddings = embedInput(model.architecture.config, weights, context.batch.input, evalMode);
        const parsed = smart.options.parse({ projection: "code", ...options });
        return [...searchPerturbation(context, embeddings, clean, toTensor(start), parsed).toFloat32Array()];
      });
    expect(search({})).toEqual(search({ stepSize: 1e-5, epsilon: 1e-6 }));
    expect(search({})).not.toEqual(search({ stepSize: 1e-3, epsilon: 1e-5 }));
  });

  test("computes the proximal term to the averaged weights", () => {
    const compute = (): ReadonlyMap<string, Tensor> => {
      const context = createContext();
      const copy = noGrad(() => toTensors(slow));
      return new Map([["proximity", computeProximalLoss(context, context.pass("clean").logits, copy)]]);
    };
    expectComputed(compute, { proximity: fixture.smart.proximity });
  });

  test("averages weights with decay 0.99 in the first 10% of the steps and 0.999 afterwards", async () => {
    const method = smart.create(smart.options.parse({}));
    const longTraining = { ...training, totalSteps: 20 };
    await method.prepare?.(longTraining);
    const name = "classifier.bias";
    const copy = method.state?.().buffers?.get(`smart.slow.${name}`) as Tensor;
    const parameter = weights.get(name) as Tensor;
    scope(() => {
      const before = copy.toFloat32Array();
      const { optimizer } = training;
      const updateAverage = (done: number): void =>
        noGrad(() => {
          copy.write(before.map((value) => value + 1));
          optimizer.step.fill_(done);
          method.afterStep?.({ training: longTraining, optimizer } as never, () => {});
        });
      for (const [done, weight] of [
        [1, 0.01],
        [2, 0.01],
        [3, 0.001],
      ] as const) {
        updateAverage(done);
        expectClose(copy.sub(parameter.detach()).toFloat32Array()[0], 1 - weight, {}, `after step ${done}`);
      }
      noGrad(() => optimizer.step.fill_(0));
    });
    free(method.state?.().buffers);
  });
});

describe("FreeLB", () => {
  test("with maxNorm 0, as in FreeLB++, 30 steps of 0.03 follow the normalized gradient without a bound", () => {
    const method = freelb.create({ steps: 30, stepSize: 0.03, initMagnitude: 0, maxNorm: 0 });
    const bias = "classifier.bias";
    scope(() => {
      const seen: { perturbation: Float32Array; gradient: Float32Array; bias: Float32Array }[] = [];
      const gradients = method.gradients?.(createContext(), (context) => {
        const name = "freelb.perturbation";
        const perturbation = ((context as BatchContext).extraLeaves.get(name) as Tensor).detach().toFloat32Array();
        const step = training.stack.gradients(context as BatchContext);
        const [gradient, own] = [name, bias].map((key) => (step.total.get(key) as Tensor).toFloat32Array());
        seen.push({ perturbation, gradient: gradient!, bias: own! });
        return step;
      }) as Gradients;
      expect(gradients.total.size).toBe(weights.size);
      expect(seen).toHaveLength(30);
      // Text by text: d + 0.03 g / norm(g), from 0. A limit of 0.6, as in FreeLB, would project it.
      const size = seen[0]!.perturbation.length / 3;
      const computeNorm = (values: Float32Array): number => Math.hypot(...values);
      for (const text of [0, 1, 2]) {
        const slice = (values: Float32Array): Float32Array => values.slice(text * size, (text + 1) * size);
        const expected = new Array<number>(size).fill(0);
        for (const { perturbation, gradient } of seen) {
          const own = slice(perturbation);
          expectClose(own, expected, { terms: 30 * 8, scale: 1 });
          const norm = computeNorm(slice(gradient));
          for (const [i, value] of slice(gradient).entries()) expected[i]! += (0.03 * value) / norm;
        }
      }
      expect(computeNorm(seen.at(-1)!.perturbation.slice(0, size))).toBeGreaterThan(0.6);
      // The gradient of the step is the mean over the passes.
      const total = (gradients.total.get(bias) as Tensor).toFloat32Array();
      const means = Array.from(total, (_, i) => seen.reduce((sum, each) => sum + each.bias[i]!, 0) / 30);
      expectClose(total, means, { terms: 30 });
    });
  });

  test("the initial perturbation is uniform over the text and 0 at padding", () => {
    const method = freelb.create({ steps: 1, stepSize: 0, maxNorm: 0, initMagnitude: 2 });
    scope(() => {
      const seen: Tensor[] = [];
      method.gradients?.(createContext(), (context) => {
        seen.push((context as BatchContext).extraLeaves.get("freelb.perturbation") as Tensor);
        return training.stack.gradients(context as BatchContext);
      });
      const perturbation = seen[0] as Tensor;
      const [rows, length, width] = perturbation.shape as [number, number, number];
      const values = perturbation.toFloat32Array();
      for (let row = 0; row < rows; row++) {
        const count = training.job.train.lengths[row] as number;
        const size = 2 / Math.sqrt(count * width);
        const own = values.slice(row * length * width, (row + 1) * length * width);
        expect(Math.max(...own.slice(0, count * width).map(Math.abs))).toBeLessThanOrEqual(size);
        expect(Math.max(...own.slice(0, count * width).map(Math.abs))).toBeGreaterThan(0.7 * size);
        expect([...own.slice(count * width)].every((value) => value === 0)).toBe(true);
      }
    });
  });
});
