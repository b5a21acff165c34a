import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { computeFisherDiagonal, selectLargest } from "../../../src/methods/child-tuning.js";
import { freelb } from "../../../src/methods/freelb.js";
import { computeProximalLoss, computeSmoothnessLoss, searchPerturbation, smart } from "../../../src/methods/smart.js";
import { embedBatchWords } from "../../../src/methods/word-embedding-input.js";
import { free, grad, noGrad, scope, type Tensor } from "../../../src/tensor/index.js";
import { createBatchContext } from "../../../src/train/batch-context.js";
import { toHostBatch } from "../../../src/train/host-batch.js";
import type { Batch, BatchContext, Gradients } from "../../../src/train/index.js";
import { type PreparedTraining, prepareTraining } from "../../../src/train/prepare-training.js";
import { toBatch } from "../../../src/train/runner.js";
import { tinyDataset, tinyJob, tinyModel } from "../tiny.js";
import { expectAllClose, expectClose, fixture, toTensor, toTensors } from "./fixture.js";

const model = tinyModel(fixture.model.config, toTensors(fixture.model.weights));
const { weights } = model;
const table = weights.get("bert.embeddings.word_embeddings.weight") as Tensor;
const query = weights.get("bert.encoder.layer.0.attention.self.query.weight") as Tensor;
let training: PreparedTraining;

beforeAll(async () => {
  const settings = { batchSize: 2, dropout: false, clip: fixture.fisher.clip };
  training = await prepareTraining(tinyJob(model, [], { train: tinyDataset(fixture.texts) }, settings), null);
});
afterAll(() => training.close());

/** The first three texts as a batch of the run. */
function batchOf(): Batch {
  const host = toHostBatch(training.run.dataset, Int32Array.from([0, 1, 2]), 0, "cpu");
  return toBatch(training.context, host);
}

function stepOf(): BatchContext {
  return createBatchContext({ ...training.context, log: () => {} }, batchOf(), 0);
}

describe("Child-Tuning_D", () => {
  test("Fisher information and the mask of its largest elements", async () => {
    const { fisher, threshold, keep, kept } = fixture.fisher;
    const names = Object.keys(fisher);
    const found = await computeFisherDiagonal(
      training.run,
      new Map([...weights].filter(([name]) => names.includes(name))),
    );
    expectAllClose(found, fisher);
    scope(() => {
      const masks = selectLargest(found, keep);
      for (const [name, mask] of masks) {
        const above = fisher[name]?.values.map((value) => Number(value >= (threshold.values[0] as number)));
        expect([...mask.to("float32").toFloat32Array()], name).toEqual(above);
        expect(mask.sum().item()).toBe(kept[name]);
      }
    });
    free(found);
  });
});

describe("SMART", () => {
  const { stepSize, epsilon, steps, start, cases, slow } = fixture.smart;

  test.each(["paper", "code"] as const)(
    "inner steps with the %s's projection, and the smoothness term",
    (projection) => {
      const chosen = smart.options.parse({ stepSize, epsilon, steps, projection });
      const expected = cases[projection];
      scope(() => {
        const step = stepOf();
        const clean = step.pass("clean").logits;
        expectClose(
          searchPerturbation(step, embedBatchWords(step, "perturbed"), clean, toTensor(start), chosen),
          expected.noise,
        );
      });
      scope(() => {
        const step = stepOf();
        const term = computeSmoothnessLoss(step, step.pass("clean").logits, () => toTensor(start), chosen);
        expectClose(term, expected.smoothness);
        const [tableGradient, queryGradient] = grad(term, [table, query]);
        expectClose(tableGradient, expected.table, "word embeddings");
        expectClose(queryGradient, expected.query, "query");
      });
    },
  );

  test("the proximal term to a slow copy", () => {
    scope(() => {
      const step = stepOf();
      const copy = noGrad(() => toTensors(slow));
      expectClose(computeProximalLoss(step, step.pass("clean").logits, copy), fixture.smart.proximity);
    });
  });

  test("the slow copy follows at 0.99 in the first tenth of the updates, at 0.999 after", async () => {
    const layer = smart.create(smart.options.parse({}));
    const run = { ...training.run, totalSteps: 20 };
    await layer.prepare?.(run);
    const name = "classifier.bias";
    const copy = layer.state?.().buffers?.get(`smart.slow.${name}`) as Tensor;
    const parameter = weights.get(name) as Tensor;
    scope(() => {
      const before = copy.toFloat32Array();
      const { optimizer } = training.context;
      const follow = (done: number): void =>
        noGrad(() => {
          copy.write(before.map((value) => value + 1));
          optimizer.step.fill_(done);
          layer.afterStep?.({ run, optimizer } as never, () => {});
        });
      for (const [done, weight] of [
        [1, 0.01],
        [2, 0.01],
        [3, 0.001],
      ] as const) {
        follow(done);
        expect(copy.sub(parameter.detach()).toFloat32Array()[0], `after update ${done}`).toBeCloseTo(1 - weight, 5);
      }
      noGrad(() => optimizer.step.fill_(0));
    });
    free(layer.state?.().buffers);
  });
});

describe("FreeLB", () => {
  const { steps, stepSize, radius, loss, gradients: expected, norms } = fixture.freelb;

  test("the gradient accumulated over three ascent steps with projection", () => {
    expect(Math.max(...(norms[1]?.values ?? [])), "the ball is left, so that projection shows").toBeGreaterThan(radius);
    const layer = freelb.create({ steps, stepSize, maxNorm: radius, initMagnitude: 0 });
    scope(() => {
      const gradients = layer.gradients?.(stepOf(), (step) =>
        training.context.stack.gradients(step as BatchContext),
      ) as Gradients;
      expect(gradients.losses.get("task")?.item()).toBeCloseTo(loss, 5);
      expect([...gradients.total.keys()], "the perturbation is no parameter").toEqual([...weights.keys()]);
      expectAllClose(gradients.total, expected);
    });
  });

  test("the first perturbation is uniform over the text and nothing at padding", () => {
    const layer = freelb.create({ steps: 1, stepSize: 0, maxNorm: 0, initMagnitude: 2 });
    scope(() => {
      const seen: Tensor[] = [];
      layer.gradients?.(stepOf(), (step) => {
        seen.push((step as BatchContext).extraLeaves.get("freelb.perturbation") as Tensor);
        return training.context.stack.gradients(step as BatchContext);
      });
      const shift = seen[0] as Tensor;
      const [rows, length, width] = shift.shape as [number, number, number];
      const values = shift.toFloat32Array();
      for (let row = 0; row < rows; row++) {
        const count = training.run.dataset.lengths[row] as number;
        const size = 2 / Math.sqrt(count * width);
        const own = values.slice(row * length * width, (row + 1) * length * width);
        expect(Math.max(...own.slice(0, count * width).map(Math.abs))).toBeLessThanOrEqual(size);
        expect(Math.max(...own.slice(0, count * width).map(Math.abs))).toBeGreaterThan(0.7 * size);
        expect([...own.slice(count * width)].every((value) => value === 0)).toBe(true);
      }
    });
  });
});
