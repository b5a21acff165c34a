import { describe, expect, test, vi } from "vitest";
import { listen } from "../../src/base/events.js";
import { toPredictions } from "../../src/evaluation/metrics.js";
import type { ModifiableWords } from "../../src/hull/convex-hull.js";
import { ascc } from "../../src/methods/ascc/ascc.js";
import { computeRobustAccuracy } from "../../src/methods/ascc/robust-accuracy.js";
import { createMethods } from "../../src/methods/index.js";
import { mixout, mixRowsTogether, mixWithRowMask } from "../../src/methods/mixout.js";
import { ptwd } from "../../src/methods/ptwd.js";
import { getPretrainedParameterNames, predictProbabilities } from "../../src/models/index.js";
import type { Model } from "../../src/models/model.js";
import { trainMode } from "../../src/nn/index.js";
import { free, grad, Rng, randn, scope, seedGenerator, tensor } from "../../src/tensor/index.js";
import { type TrainingMethod, train } from "../../src/train/index.js";
import { createTrainingContext } from "../../src/train/training-context.js";
import { expectClose, getLargest } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { readValues, texts, tinyDataset, tinyJob, tinyModel } from "./tiny.js";

// Options that follow the authors' released code where it differs from the papers.
vi.stubEnv("TEMPER_CACHE", temporaryFolder());

describe("ROSE with maskDuringWarmup: false", () => {
  /** Trains six steps, of which three are warm-up, and returns the updated fraction per step. */
  async function trainWithWarmup(
    options: object,
    stopAfter: number,
  ): Promise<{ ratios: unknown[]; weights: Record<string, number[]> }> {
    const model = tinyModel();
    const ratios: unknown[] = [];
    const methods = createMethods([{ name: "rose", options: { updateRatio: 0.6, ...options } }]);
    const callbacks = listen({
      log({ entry }) {
        if (entry["rose.updateRatio"] !== undefined) ratios.push(entry["rose.updateRatio"]);
      },
    });
    await train(tinyJob(model, methods, { ...callbacks, stopAfter }, { warmupRatio: 0.5 }));
    const weights = readValues(model.weights);
    free(model.weights);
    return { ratios, weights };
  }

  test.each(["first", "second", "ensemble"])(
    "%s: freezes nothing in the warm-up, and tensors after it",
    async (variant) => {
      const { ratios } = await trainWithWarmup({ variant, maskDuringWarmup: false }, 6);
      expect(ratios.slice(0, 3)).toEqual([1, 1, 1]);
      // Nine of the 16 layer weights have a rank of at most 60%.
      for (const ratio of ratios.slice(3)) expectClose(ratio as number, 9 / 16);
      const always = await trainWithWarmup({ variant }, 6);
      expectClose(always.ratios[1] as number, 9 / 16);
    },
  );

  test("the warm-up is that of ROSE that updates everything, to the bit", async () => {
    const released = await trainWithWarmup({ maskDuringWarmup: false }, 3);
    expect(released.weights).toEqual((await trainWithWarmup({ updateRatio: 1 }, 3)).weights);
    expect(released.weights).not.toEqual((await trainWithWarmup({}, 3)).weights);
  });
});

describe("Mixout with variant: code", () => {
  test("mixes with a given mask", () => {
    scope(() => {
      const current = tensor([2, 3, 4, 5], [2, 2]).requiresGrad_();
      // p = 1/2: u + 2 (w - u) in the first column, u in the second.
      const mixed = mixWithRowMask(current, tensor([1, 1, 1, 1], [2, 2]), tensor([2, 0], [1, 2]), 0.5);
      expect([...mixed.toFloat32Array()]).toEqual([3, 1, 7, 1]);
      expect([...grad(mixed.sum(), [current])[0]!.toFloat32Array()]).toEqual([1, 0, 1, 0]);
    });
  });

  test("all rows of a matrix have the same mask, and the gradient is not divided by 1 - p", () => {
    const p = 0.6;
    scope(() => {
      seedGenerator("cpu", 5);
      const current = [randn([3, 40]).requiresGrad_(), randn([7, 30]).requiresGrad_()];
      const before = current.map(({ shape }) => randn(shape));
      const mixed = mixRowsTogether("cpu", current, before, p);
      const gradients = grad(
        mixed.map((tensor) => tensor.sum()),
        current,
      );
      for (const [i, tensor] of mixed.entries()) {
        const [rows, columns] = tensor.shape as [number, number];
        const [values, now, then, slope] = [tensor, current[i]!, before[i]!, gradients[i]!].map((each) =>
          each.toFloat32Array(),
        ) as [Float32Array, Float32Array, Float32Array, Float32Array];
        const mask = [...slope.slice(0, columns)];
        expect(new Set(mask)).toEqual(new Set([0, 1]));
        for (let row = 1; row < rows; row++) expect([...slope.slice(row * columns, (row + 1) * columns)]).toEqual(mask);
        const expected = values.map((_, j) =>
          mask[j % columns] === 1 ? (now[j]! - p * then[j]!) / (1 - p) : then[j]!,
        );
        const scale = (getLargest(now) + getLargest(then)) / (1 - p);
        expectClose(values, expected, { terms: 4, scale });
      }
    });
  });

  test("mixes the matrices of linear layers only", async () => {
    const model = tinyModel();
    const method = mixout.create(mixout.options.parse({ variant: "code", p: 0.9 }));
    const training = await createTrainingContext(tinyJob(model, [method]));
    scope(() => {
      const context = { training, enterRandomStream() {} };
      const pass = { name: "clean" as const, mode: trainMode, context: context as never };
      const mixed = method.weights!(pass, () => model.weights);
      const changed = [...mixed].flatMap(([name, tensor]) => (tensor === model.weights.get(name) ? [] : [name]));
      // Query, key, value, output, intermediate and output of two layers, and the pooler.
      expect(changed).toHaveLength(13);
      expect(changed.every((name) => name.endsWith(".weight") && !/embeddings|LayerNorm|classifier/.test(name))).toBe(
        true,
      );
    });
    training.close();
    free(model.weights);
  });
});

describe("PTWD with newPooler: included", () => {
  const hiddenSize = 64;
  const config = {
    ...{ model_type: "roberta", vocab_size: 16, hidden_size: hiddenSize, num_hidden_layers: 1, num_attention_heads: 2 },
    ...{ intermediate_size: 16, max_position_embeddings: 14, pad_token_id: 0 },
  };

  /** A RoBERTa whose checkpoint has no pooler, so it is initialized like a new dense layer. */
  function createRoberta(): Model {
    const base = tinyModel(config);
    const rng = new Rng("pooler");
    const names = ["roberta.pooler.dense.weight", "roberta.pooler.dense.bias"];
    const weights = new Map(base.weights);
    for (const [name, shape] of [
      [names[0]!, [hiddenSize, hiddenSize]],
      [names[1]!, [hiddenSize]],
    ] as const) {
      const std = name.endsWith("weight") ? 0.02 : 0;
      seedGenerator("cpu", rng.integer(1000));
      weights.set(name, randn(shape).mul(std).detach().requiresGrad_());
    }
    return { ...base, weights, newlyInitialized: names };
  }

  const measure = async (options: object): Promise<number> => {
    const model = createRoberta();
    const method = ptwd.create(ptwd.options.parse({ lambda: 1, ...options })) as TrainingMethod;
    const training = await createTrainingContext(tinyJob(model, [method]));
    const distance = scope(() =>
      method.losses!({ training } as never, () => new Map())
        .get("distance")!
        .item(),
    );
    training.close();
    free(model.weights);
    return distance;
  };

  test("starts at the distance of two random poolers instead of 0", async () => {
    // sqrt(1e-10), the constant under the root.
    expectClose(await measure({}), 1e-5);
    // The difference of two normal matrices with standard deviation 0.02 has the norm
    // 0.02 sqrt(2 n) for n elements. Its standard deviation is 0.02, so this is six of them.
    const expected = 0.02 * Math.sqrt(2 * hiddenSize ** 2);
    expect(Math.abs((await measure({ newPooler: "included" })) - expected)).toBeLessThan(6 * 0.02);
  });

  test("a pre-trained pooler is a part of the distance in both cases", () => {
    const model = tinyModel();
    expect(getPretrainedParameterNames(model)).toContain("bert.pooler.dense.weight");
    free(model.weights);
  });

  test("a model without a pooler is rejected", async () => {
    const model = tinyModel(config);
    const methods = createMethods([{ name: "ptwd", options: { newPooler: "included" } }]);
    await expect(train(tinyJob(model, methods))).rejects.toThrow("Set pooling: pooler");
    free(model.weights);
  });
});

describe("ASCC with robustAccuracy: attacked", () => {
  test("counts texts that are correct after the attack, whatever they were before", async () => {
    const model = tinyModel();
    await train(tinyJob(model, [], {}, { epochs: 15, dropout: false }));
    const training = await createTrainingContext(tinyJob(model, []));
    const predict = async (inputs: typeof texts): Promise<Int32Array> => {
      const encodings = tinyDataset(inputs).items.map(({ encoding }) => encoding);
      return toPredictions(await predictProbabilities(model, model.weights, encodings, training.job.deviceConfig));
    };
    // Every choice of the first word is the token 4, and the labels are the predictions after that.
    const getModifiableWords = (): ModifiableWords => ({
      tokenPositions: Int32Array.of(1),
      wordIndices: Int32Array.of(0),
      candidateIds: [Int32Array.of(4, 4)],
    });
    const after = await predict(texts.map(({ ids, label }) => ({ ids: [ids[0]!, 4, ...ids.slice(2)], label })));
    const { items } = tinyDataset(texts.map(({ ids }, i) => ({ ids, label: after[i]! })));
    const numUnchanged = (await predict(texts)).filter((label, i) => label === after[i]).length;
    expect(numUnchanged).toBeLessThan(texts.length);
    const measure = (robustAccuracy: "attacked" | "clean-and-attacked"): Promise<number> =>
      computeRobustAccuracy(training, items, getModifiableWords, {
        ...ascc.options.parse({ innerSteps: 2 }),
        robustAccuracy,
      });
    expect(await measure("attacked")).toBe(1);
    expect(await measure("clean-and-attacked")).toBe(numUnchanged / texts.length);
    training.close();
    free(model.weights);
  });
});
