import { describe, expect, test } from "vitest";
import { rDrop } from "../../../src/methods/r-drop.js";
import {
  computeNorms,
  computeSecondOrderRisks,
  computeTensorMask,
  countWithinFraction,
} from "../../../src/methods/rose/mask.js";
import { rose } from "../../../src/methods/rose/rose.js";
import { AdamW, crossEntropy, symmetricKl } from "../../../src/nn/index.js";
import { noGrad, scope, type Tensor, tensor } from "../../../src/tensor/index.js";
import type { BatchContext, NamedTensors, OptimizerStep } from "../../../src/train/index.js";
import { computeGradients } from "../../../src/train/mixed-precision.js";
import { expectClose } from "../../rounding.js";
import { expectAllClose, fewRoundings, fixture, toTensor, toTensors } from "./fixture.js";

describe("eq. 1 and 2", () => {
  const { divergence } = fixture;

  test("the divergence of two dropout passes and the norms of its gradients", () => {
    scope(() => {
      const inputs = toTensor(divergence.inputs);
      const [first, second] = divergence.weights.map((saved) => toTensor(saved).requiresGrad_()) as [Tensor, Tensor];
      const [p, q] = divergence.masks.map((mask) => inputs.mul(toTensor(mask)).matmul(first).tanh().matmul(second)) as [
        Tensor,
        Tensor,
      ];
      const loss = symmetricKl(p, q).mul(inputs.size(0) / 4);
      expectClose(loss, divergence.divergence);
      const gradients = computeGradients(
        loss,
        new Map([
          ["first", first],
          ["second", second],
        ]),
      );
      expectClose(computeNorms([...gradients.values()]), divergence.norms);
    });
  });

  test.each(Object.keys(divergence.rDrop))("the R-Drop loss with alpha %s", (alpha) => {
    scope(() => {
      const [p, q] = divergence.logits.map((saved) => ({ logits: toTensor(saved) }));
      const context = {
        log() {},
        passTwice: () => [p, q],
        batch: { labels: tensor(Int32Array.from(divergence.labels)), batchSize: 6 },
        // A last batch is smaller than the setting.
        training: { job: { settings: { batchSize: 32 } }, taskLoss: crossEntropy },
      } as unknown as BatchContext;
      const method = rDrop.create({ alpha: Number(alpha), reduction: "mean" });
      const losses = method.losses?.(context, () => new Map()) as ReadonlyMap<string, Tensor>;
      expect([...losses.keys()]).toEqual(["task", "consistency"]);
      expectClose(
        (losses.get("task") as Tensor).add(losses.get("consistency") as Tensor),
        divergence.rDrop[alpha] as never,
      );
      // R-Drop's RoBERTa code: 1/2 CE1 + alpha/2 sum(KL + KL), here times two. Its KL has the weight
      // 4 * batch size, relative to the paper's.
      const summed = rDrop.create({ alpha: Number(alpha), reduction: "sum" }).losses?.(context, () => new Map());
      expectClose(summed?.get("consistency")?.item(), 24 * (losses.get("consistency") as Tensor).item());
      expect(summed?.get("task")?.item()).toBe(crossEntropy(p!.logits, context.batch.labels).item());
    });
  });
});

describe("eq. 3", () => {
  test.each(fixture.masks)("$name risks, keep $keep", ({ risks, keep, rank, quantile }) => {
    scope(() => {
      const values = tensor(Float32Array.from(risks));
      expect([...computeTensorMask(values, keep, "rank").toFloat32Array()]).toEqual(rank.values);
      expect([...computeTensorMask(values, keep, "quantile").toFloat32Array()]).toEqual(quantile.values);
    });
  });

  test("60% of 96 tensors are 57 by rank and 58 by quantile", () => {
    const case96 = fixture.masks.find(({ name, keep }) => name === "ninetySix" && keep === 0.6);
    const count = (values: readonly number[] = []): number => values.reduce((sum, value) => sum + value, 0);
    expect([countWithinFraction(0.6, 96), count(case96?.rank.values), count(case96?.quantile.values)]).toEqual([
      57, 57, 58,
    ]);
  });
});

test("eq. 4 is 1 if there is no average yet", () => {
  scope(() => {
    const risks = computeSecondOrderRisks(tensor([2, 2, 0]), tensor([0.1, 0, 0.5]), 0.1);
    expectClose(risks, { shape: [3], values: [1, 1, 1] });
  });
});

describe("Algorithm 1", () => {
  const { settings, start, sequence, cases } = fixture.algorithm;

  test.each(cases)("three steps, variant $order", (expected) => {
    scope(() => {
      const parameters = toTensors(start);
      const names = [...parameters.keys()];
      const { beta1, beta2, epsilon, decay, rate, keepFirst, keepSecond, gamma } = settings;
      const optimizer = new AdamW(parameters, [{ names, weightDecay: decay, learningRate: 1 }], {
        beta1,
        beta2,
        epsilon,
        epsilonMode: "corrected",
      });
      optimizer.setLearningRateFactor(rate);
      const method = rose.create(
        rose.options.parse({
          variant: expected.order,
          firstUpdateRatio: keepFirst,
          secondUpdateRatio: keepSecond,
          gamma,
        }),
      );
      const logged = new Map<string, Tensor>();
      for (const [stepIndex, { g, kl }] of sequence.entries()) {
        const gradients: NamedTensors = toTensors(g);
        const step = {
          training: { job: { model: { weights: parameters } }, parameters },
          stepIndex,
          gradients,
          auxiliaryGradients: new Map([["rose.divergence", toTensors(kl)]]),
          optimizer,
          log: (name: string, value: Tensor) => void logged.set(name, value),
        } as unknown as OptimizerStep;
        const moments = Object.keys(kl).map((name) => optimizer.firstMoment(name));
        expectClose(
          computeSecondOrderRisks(
            computeNorms(Object.keys(kl).map((name) => gradients.get(name) as Tensor)),
            computeNorms(moments),
            1 - beta1,
          ),
          expected.risks[stepIndex]?.second as never,
          {},
          "line 6",
        );
        expectClose(computeNorms([...toTensors(kl).values()]), expected.risks[stepIndex]?.first as never, {}, "line 5");
        noGrad(() => {
          const updates = method.transformUpdates?.(
            step,
            () => new Map([...gradients].map(([name, gradient]) => [name, { gradient, mask: null }])),
          );
          const masks = Object.keys(kl).map((name) => updates?.get(name)?.mask?.item());
          for (const [i, value] of (expected.masks[stepIndex]?.values ?? []).entries())
            expectClose(masks[i], value, {}, "line 7");
          expect(updates?.get("classifier.weight")?.mask, "other parameters always train").toBe(null);
          optimizer.update(updates ?? new Map());
        });
        const mask = expected.masks[stepIndex]?.values ?? [];
        const mean = (values: readonly number[]): number =>
          values.reduce((sum, value) => sum + value, 0) / values.length;
        expectClose(logged.get("rose.updateRatio")?.item(), mean(mask));
        expectClose(logged.get("rose.updateRatio.0")?.item(), mean(mask.slice(0, 5)));
        expectClose(logged.get("rose.updateRatio.1")?.item(), mean(mask.slice(5)));
      }
      expectAllClose(parameters, expected.parameters);
      const moments = optimizer.moments();
      for (const name of names) {
        expectClose(moments.get(`first.${name}`), expected.first[name] as never, fewRoundings, `m of ${name}`);
        expectClose(moments.get(`second.${name}`), expected.second[name] as never, fewRoundings, `v of ${name}`);
      }
      optimizer.dispose();
    });
  });
});
