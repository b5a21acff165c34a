import { afterAll, describe, expect, test } from "vitest";
import { createMethods, type MethodSpec, roast, sam } from "../../src/methods/index.js";
import { computeUpdateProbabilities } from "../../src/methods/roast.js";
import { computeAscent } from "../../src/methods/sam.js";
import { addPerturbation, embedBatchWords } from "../../src/methods/word-embedding-input.js";
import { crossEntropy } from "../../src/nn/index.js";
import { free, grad, scope, type Tensor, tensor, zerosLike } from "../../src/tensor/index.js";
import { toBatch, toHostBatch } from "../../src/train/batch-transfer.js";
import {
  type BatchContext,
  type Gradients,
  type NamedTensors,
  type TrainingMethod,
  train,
} from "../../src/train/index.js";
import { StepBatch } from "../../src/train/step-batch.js";
import { type ActiveTraining, createTrainingContext } from "../../src/train/training-context.js";
import { expectClose, getLargest, type Rounding } from "../rounding.js";
import { readValues, tinyJob, tinyModel } from "./tiny.js";

const model = tinyModel();
afterAll(() => free(model.weights));

/** Creates a training without dropout and passes the first four texts as a batch. */
async function withBatch<T>(
  specs: readonly MethodSpec[],
  use: (context: BatchContext, training: ActiveTraining) => T,
  settings: object = {},
): Promise<T> {
  const job = tinyJob(model, createMethods(specs), {}, { dropout: false, ...settings });
  const training = await createTrainingContext(job);
  try {
    const host = toHostBatch(training.job, Int32Array.from([0, 1, 2, 3]));
    return scope(() => use(new StepBatch(training, toBatch(training.job, host), 0), training));
  } finally {
    training.close();
  }
}

interface Computed {
  readonly losses: Record<string, number>;
  readonly total: Record<string, number[]>;
}

function readGradients({ losses, total }: Gradients): Computed {
  return {
    losses: Object.fromEntries([...losses].map(([name, loss]) => [name, loss.item()])),
    total: readValues(total),
  };
}

const computeStep = (...specs: MethodSpec[]): Promise<Computed> =>
  withBatch(specs, (context, training) => readGradients(training.stack.gradients(context)));

/** A forward and a backward pass through the tiny model round so many times one after the other. */
const passes: Rounding = { terms: 400 };
/** A gradient that is 0 in exact arithmetic, such as that of a key bias, is a sum of terms that cancel. */
const gradientPasses = (values: readonly number[]): Rounding => ({
  ...passes,
  scale: Math.max(1e-3, getLargest(values)),
});

const spec = (name: string, options: Record<string, unknown> = {}): MethodSpec => ({ name, options });

/** Softmax rows of logits, in double precision. */
function computeProbabilities(logits: Tensor, temperature = 1): number[][] {
  const [rows, classes] = logits.shape as [number, number];
  const values = [...logits.toFloat32Array()];
  return Array.from({ length: rows }, (_, row) => {
    const exponentials = values.slice(row * classes, (row + 1) * classes).map((value) => Math.exp(value / temperature));
    const sum = exponentials.reduce((total, value) => total + value);
    return exponentials.map((value) => value / sum);
  });
}

describe("methods with their own task loss use class weights and focus", () => {
  const hashVote = spec("hash-vote", { groups: 2, margin: 1 });
  test.each([roast({ alpha: 0 }), spec("r-drop", { reduction: "sum" }), hashVote])("$name", async (method) => {
    const compute = (settings: object): Promise<number> =>
      withBatch([method], (context, { stack }) => stack.losses(context).get("task")!.item(), settings);
    const [plain, tripled, focused] = [
      await compute({}),
      await compute({ classWeights: { a: 3, b: 3, c: 3 } }),
      await compute({ focalGamma: 2 }),
    ];
    expectClose(tripled, 3 * plain, passes);
    expect(focused).toBeLessThan(0.9 * plain);
  });
});

describe("flooding", () => {
  test("reverses the gradient below the level and keeps it above", async () => {
    const standard = await computeStep();
    const loss = standard.losses.task!;
    const level = loss + 0.25;
    const below = await computeStep(spec("flooding", { level }));
    expect(below.losses.task).toBe(loss);
    expectClose(below.losses.task! + below.losses.flooding!, Math.abs(loss - level) + level, passes);
    for (const [name, gradient] of Object.entries(standard.total))
      expectClose(
        below.total[name]!,
        gradient.map((value) => -value),
        gradientPasses(gradient),
        name,
      );
    const above = await computeStep(spec("flooding", { level: loss / 2 }));
    expect(above.losses.flooding).toBe(0);
    expect(above.total).toEqual(standard.total);
  });

  test("compares the level with the sum of the losses of the methods below it", async () => {
    const inner = await computeStep(spec("r-drop", { alpha: 4 }));
    const sum = inner.losses.task! + inner.losses.consistency!;
    const flooded = await computeStep(spec("r-drop", { alpha: 4 }), spec("flooding", { level: sum + 1 }));
    expectClose(flooded.losses.flooding, 2, passes);
  });
});

describe("temperature", () => {
  test("computes the cross-entropy of z / T and its gradient", async () => {
    const temperature = 5;
    const { loss, bias } = await withBatch([], (context) => {
      const labels = [...context.batch.labels.to("float32").toFloat32Array()];
      const probabilities = computeProbabilities(context.pass("clean").logits, temperature);
      const residuals = probabilities.map((row, i) => row.map((p, k) => p - Number(labels[i] === k)));
      return {
        loss: probabilities.reduce((sum, row, i) => sum - Math.log(row[labels[i]!]!), 0) / labels.length,
        bias: [0, 1, 2].map((k) => residuals.reduce((sum, row) => sum + row[k]!, 0) / labels.length / temperature),
      };
    });
    const computed = await computeStep(spec("temperature", { temperature }));
    expectClose(computed.losses.task, loss, passes);
    expectClose(computed.total["classifier.bias"]!, bias, passes);
  });

  test("also divides the logits of perturbed passes and of inner searches", async () => {
    const logits = await withBatch([spec("temperature", { temperature: 5 })], (context) =>
      ["clean", "perturbed"].map((name) => [...context.pass(name as "clean").logits.toFloat32Array()]),
    );
    const plain = await withBatch([], (context) => [...context.pass("clean").logits.toFloat32Array()]);
    for (const values of logits)
      expectClose(
        values,
        plain.map((value) => value / 5),
        passes,
      );
  });

  test("is rejected with logits of fixed weights", async () => {
    await expect(computeStep(spec("smart"), spec("temperature"))).rejects.toThrow(
      "smart compares the logits with those of averaged weights, which have no temperature",
    );
    await computeStep(spec("smart", { mu: 0 }), spec("temperature"));
  });
});

describe("sam", () => {
  test("computes the ascent of SAM and of ASAM", () => {
    scope(() => {
      const parameters = [tensor([3, -1]), tensor([0.5])];
      const gradients = [tensor([2, 0]), tensor([-1])];
      const options = sam.options.parse({ rho: 0.1 });
      const flatten = (tensors: readonly Tensor[]) => tensors.flatMap((each) => [...each.toFloat32Array()]);
      const norm = Math.sqrt(5);
      expectClose(flatten(computeAscent(parameters, gradients, options)), [0.2 / norm, 0, -0.1 / norm]);
      // T = |theta| + eta = [3.5, 1.5, 1], T g = [7, 0, -1].
      const adaptive = computeAscent(parameters, gradients, { rho: 0.1, adaptive: true, eta: 0.5 });
      const scaledNorm = Math.sqrt(50);
      expectClose(flatten(adaptive), [(0.1 * 3.5 * 7) / scaledNorm, 0, -0.1 / scaledNorm]);
    });
  });

  test("returns the gradient at the perturbed parameters and restores the parameters", async () => {
    const before = readValues(model.weights);
    const standard = await computeStep();
    const computed = await computeStep(spec("sam", { rho: 0.3 }));
    expect(readValues(model.weights)).toEqual(before);
    expect(computed.losses).toEqual(standard.losses);
    const norm = Math.sqrt(
      Object.values(standard.total)
        .flat()
        .reduce((sum, value) => sum + value ** 2, 0),
    );
    const shifted = tinyModel(
      undefined,
      new Map(
        [...model.weights].map(([name, { shape }]) => [
          name,
          tensor(
            before[name]!.map((value, i) => value + (0.3 * standard.total[name]![i]!) / norm),
            shape,
          ),
        ]),
      ),
    );
    const training = await createTrainingContext(tinyJob(shifted, [], {}, { dropout: false }));
    const expected = scope(() => {
      const host = toHostBatch(training.job, Int32Array.from([0, 1, 2, 3]));
      return readGradients(training.stack.gradients(new StepBatch(training, toBatch(training.job, host), 0)));
    });
    training.close();
    free(shifted.weights);
    for (const [name, gradient] of Object.entries(expected.total))
      expectClose(computed.total[name]!, gradient, gradientPasses(gradient), name);
    expect(computed.total).not.toEqual(standard.total);
  });
});

describe("roast", () => {
  test("updates elements with the probability of their rank", () => {
    scope(() => {
      const [first, second] = computeUpdateProbabilities([tensor([0.3, 0.1]), tensor([9, 0, 0.2])], {
        alpha: 0.5,
        beta: 2,
      }).map((each) => [...each.toFloat32Array()]);
      const sigmoid = (rank: number): number => 1 / (1 + Math.exp(-4 * (rank / 4 - 0.5)));
      expectClose(first!, [3, 1].map(sigmoid));
      expectClose(second!, [4, 0, 2].map(sigmoid));
    });
  });

  test("moves each token along its gradient and adds the divergence", async () => {
    const epsilon = 0.2;
    const expected = await withBatch([], (context) => {
      const embeddings = embedBatchWords(context, "perturbed").detach();
      const leaf = zerosLike(embeddings).detach().requiresGrad_();
      const { logits } = context.pass("perturbed", { input: addPerturbation(context, embeddings, leaf) });
      const [gradient] = grad(crossEntropy(logits, context.batch.labels), [leaf]) as [Tensor];
      const width = embeddings.size(-1);
      const values = gradient.toFloat32Array();
      const moved = values.map((value, i) => {
        const start = Math.floor(i / width) * width;
        const largest = Math.max(...values.subarray(start, start + width).map(Math.abs));
        return largest === 0 ? 0 : (epsilon * value) / largest;
      });
      expectClose(Math.max(...moved), epsilon);
      const input = addPerturbation(context, embeddings, tensor(moved, embeddings.shape));
      const [clean, perturbed] = [context.pass("clean"), context.pass("again", { input })].map((pass) =>
        computeProbabilities(pass.logits),
      ) as [number[][], number[][]];
      const labels = [...context.batch.labels.to("float32").toFloat32Array()];
      const mean = (compute: (row: number) => number): number =>
        labels.reduce((sum, _, row) => sum + compute(row), 0) / labels.length;
      return {
        task: mean((row) => -Math.log(perturbed[row]![labels[row]!]!)),
        divergence: mean((row) =>
          clean[row]!.reduce((sum, p, k) => {
            const q = perturbed[row]![k]!;
            return sum + (p - q) * (Math.log(p) - Math.log(q));
          }, 0),
        ),
      };
    });
    const { losses } = await computeStep(roast({ epsilon, lambda: 0.5, alpha: 0 }));
    expectClose(losses.task, expected.task, passes);
    expectClose(losses.consistency, 0.5 * expected.divergence, passes);
  });

  test("samples a mask per epoch from the squared gradients of the epoch before", async () => {
    const options = { epsilon: 0, alpha: 0.5, beta: 1 };
    const [method] = createMethods([spec("roast", options)]) as [TrainingMethod];
    const squares: Record<string, number[]>[] = [];
    const masks: Record<string, number[]>[] = [];
    const observer: TrainingMethod = {
      name: "observer",
      transformUpdates(step, next) {
        const gradients = readValues(step.gradients);
        const updates = next();
        const buffers = method.state?.().buffers as NamedTensors;
        const names = [...buffers.keys()].filter((name) => name.startsWith("roast.mask."));
        masks.push(readValues(new Map(names.map((name) => [name.slice(11), buffers.get(name) as Tensor]))));
        for (const [name, mask] of Object.entries(masks.at(-1)!))
          expectClose(
            [...updates.get(name)!.gradient.toFloat32Array()],
            mask.map((value, i) => value * gradients[name]![i]!),
          );
        squares.push(
          Object.fromEntries(Object.keys(masks[0]!).map((name) => [name, gradients[name]!.map((g) => g * g)])),
        );
        return updates;
      },
    };
    const trained = tinyModel();
    await train(tinyJob(trained, [method, observer], {}, { batchSize: 6, epochs: 2 }));
    free(trained.weights);
    // Two steps per epoch.
    expect(masks).toHaveLength(4);
    expect(masks[1]).toEqual(masks[0]);
    expect(masks[2]).not.toEqual(masks[0]);
    const names = Object.keys(masks[0]!);
    expect(names.every((name) => /\.layer\.\d+\./.test(name))).toBe(true);
    const scores = names.flatMap((name) => squares[0]![name]!.map((value, i) => value + squares[1]![name]![i]!));
    const order = [...scores.keys()].sort((a, b) => scores[a]! - scores[b]!);
    const sampled = names.flatMap((name) => masks[2]![name]!);
    let updated = 0;
    for (const [rank, element] of order.entries()) {
      const computeP = (at: number): number => 1 / (1 + Math.exp(-2 * (at / (order.length - 1) - 0.5)));
      const p = computeP(rank);
      const value = sampled[element]!;
      if (value === 0) continue;
      updated++;
      // Neighbors in rank can be swapped by the last bit of a square.
      expectClose(value, 1 / p, { spread: new Map([["", 1 / p - 1 / computeP(rank + 1)]]) });
    }
    // The mean of p over all ranks is 1/2.
    expect(updated / order.length).toBeGreaterThan(0.45);
    expect(updated / order.length).toBeLessThan(0.55);
  });
});
