import { describe, expect, it } from "vitest";
import { AdamW, defaultAdamW, type ParameterUpdate } from "../../src/nn/index.js";
import { free, getMemoryStats, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import reference from "../fixtures/nn.json" with { type: "json" };
import { expectClose } from "../rounding.js";

type Values = Record<string, number[]>;
const { shapes, start, groups, steps, firstMoments } = reference.adamw as {
  shapes: Values;
  start: Values;
  groups: { names: string[]; decay: number; rate: number }[];
  steps: { rate: number; gates: Values; gradients: Values; parameters: Values }[];
  firstMoments: Values;
};

/** Parameters and moments after the ten steps of the reference. `modify` may replace an update. */
function train(modify = (_name: string, update: ParameterUpdate): ParameterUpdate => update): {
  parameters: Values[];
  first: Values;
} {
  const parameters = new Map(
    Object.entries(start).map(([name, values]) => [name, tensor(values, shapes[name]).requiresGrad_()]),
  );
  const optimizer = new AdamW(
    parameters,
    groups.map(({ names, decay, rate }) => ({ names, weightDecay: decay, learningRate: rate })),
  );
  const history: Values[] = [];
  for (const step of steps) {
    optimizer.setLearningRateFactor(step.rate);
    scope(() => {
      const updates = Object.entries(step.gradients).map(([name, values]): [string, ParameterUpdate] => {
        const mask = step.gates[name];
        const shape = mask?.length === 1 ? [] : shapes[name];
        return [
          name,
          modify(name, { gradient: tensor(values, shapes[name]), mask: mask ? tensor(mask, shape) : null }),
        ];
      });
      optimizer.update(new Map(updates));
    });
    history.push(
      Object.fromEntries([...parameters].map(([name, parameter]) => [name, [...parameter.toFloat32Array()]])),
    );
  }
  const first = Object.fromEntries(
    [...parameters.keys()].map((name) => [name, [...optimizer.firstMoment(name).toFloat32Array()]]),
  );
  expect(optimizer.step.item()).toBe(steps.length);
  optimizer.dispose();
  free(parameters);
  return { parameters: history, first };
}

describe("AdamW", () => {
  it("matches PyTorch for ten steps with groups, decreasing rates, and masks with one or all elements", () => {
    const { parameters, first } = train();
    expect(Object.keys(parameters[0]!)).toEqual(Object.keys(steps[0]!.parameters));
    // A step rounds a parameter about eight times, and a moment three times.
    for (const [i, step] of steps.entries()) expectClose(parameters[i]!, step.parameters, { terms: 8 * (i + 1) });
    expectClose(first, firstMoments, { terms: 3 * steps.length });
  });

  it("a mask of 1 is bitwise identical to no mask; a mask of 0 changes nothing", () => {
    const constant = (value: number, name: string, perElement: boolean): Tensor =>
      tensor(
        new Float32Array(perElement ? (start[name] as number[]).length : 1).fill(value),
        perElement ? shapes[name] : [],
      );
    const none = train((_name, update) => ({ ...update, mask: null }));
    for (const perElement of [true, false]) {
      expect(train((name, update) => ({ ...update, mask: constant(1, name, perElement) }))).toEqual(none);
      const still = train((name, update) => ({ ...update, mask: constant(0, name, perElement) }));
      expectClose(still.parameters.at(-1)!, start, { terms: 1 }); // as float32
      expect(still.parameters.at(-1)).toEqual(still.parameters[0]);
      expect(still.first).toEqual(none.first); // the moments are still updated
    }
  });

  describe("epsilonMode: uncorrected", () => {
    const settings = { ...defaultAdamW, beta2: 0.98, epsilon: 0.1, epsilonMode: "uncorrected" as const };

    /** The released formula in double precision: m sqrt(c2) / c1 / (sqrt(v) + epsilon). */
    function computeReleased(gradients: readonly number[], initial: number, rate: number, decay: number): number[] {
      let [weight, m, v] = [initial, 0, 0];
      return gradients.map((gradient, i) => {
        const [c1, c2] = [1 - settings.beta1 ** (i + 1), 1 - settings.beta2 ** (i + 1)];
        m = settings.beta1 * m + (1 - settings.beta1) * gradient;
        v = settings.beta2 * v + (1 - settings.beta2) * gradient ** 2;
        weight -= rate * decay * weight;
        weight -= ((rate * Math.sqrt(c2)) / c1) * (m / (Math.sqrt(v) + settings.epsilon));
        return weight;
      });
    }

    it("adds epsilon before the bias correction", () => {
      const gradients = [0.3, -0.02, 0.005, 0.4, 0.4, -1, 0.1, 0.1, 0.1, 2];
      const parameters = new Map([["a", tensor([1.5]).requiresGrad_()]]);
      const group = { names: ["a"], weightDecay: 0.1, learningRate: 1 };
      const optimizer = new AdamW(parameters, [group], settings);
      optimizer.setLearningRateFactor(0.05);
      const expected = computeReleased(gradients, 1.5, 0.05, 0.1);
      for (const [i, gradient] of gradients.entries()) {
        scope(() => optimizer.update(new Map([["a", { gradient: tensor([gradient]), mask: null }]])));
        // Each step rounds a weight of about 1.5 a few times.
        expectClose(parameters.get("a")!, [expected[i]!], { terms: 2 * (i + 1), scale: 1.5 });
      }
      optimizer.dispose();
      free(parameters);
    });
  });

  it("accepts a gradient with transposed memory", () => {
    const transposed = (gradient: Tensor): Tensor =>
      gradient.shape.length === 2 ? gradient.t().contiguous().t() : gradient;
    expect(train((_name, update) => ({ ...update, gradient: transposed(update.gradient) }))).toEqual(train());
  });

  it("does not change parameters and moments without an update", () => {
    const parameters = new Map([
      ["a", tensor([1, 2]).requiresGrad_()],
      ["b", tensor([3]).requiresGrad_()],
    ]);
    const optimizer = new AdamW(parameters, [{ names: ["a", "b"], weightDecay: 0.5, learningRate: 1 }]);
    optimizer.setLearningRateFactor(0.1);
    const before = getMemoryStats().tensors;
    scope(() => optimizer.update(new Map([["a", { gradient: tensor([1, 1]), mask: null }]])));
    expect(getMemoryStats().tensors).toBe(before);
    expect([...(parameters.get("b") as Tensor).toFloat32Array()]).toEqual([3]);
    expect([...optimizer.firstMoment("b").toFloat32Array()]).toEqual([0]);
    expect([...(parameters.get("a") as Tensor).toFloat32Array()]).not.toEqual([1, 2]);
    free(parameters);
  });

  it("frees all tensors that it created", () => {
    const parameters = new Map([["a", tensor([1, 2])]]);
    const before = getMemoryStats().tensors;
    const optimizer = new AdamW(parameters, [{ names: ["a"], weightDecay: 0, learningRate: 1 }]);
    expect([...optimizer.moments().keys()]).toEqual(["first.a", "second.a"]);
    expect(getMemoryStats().tensors).toBeGreaterThan(before);
    optimizer.dispose();
    expect(getMemoryStats().tensors).toBe(before);
    free(parameters);
  });

  it("names a missing parameter", () => {
    const [known, before] = [tensor([1, 2]), getMemoryStats().tensors];
    expect(() => new AdamW(new Map([["a", known]]), [{ names: ["a", "x"], weightDecay: 0, learningRate: 1 }])).toThrow(
      "no parameter x",
    );
    // The tensors created before the failure are freed.
    expect(getMemoryStats().tensors).toBe(before);
    free(known);
    expect(() => new AdamW(new Map(), []).firstMoment("y")).toThrow("has no parameter y");
  });
});
