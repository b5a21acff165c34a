import { afterEach, describe, expect, it, vi } from "vitest";

/** Operators that this test takes away, as an older libtorch would. */
const lacking = vi.hoisted(() => new Set<string>());
vi.mock("../../src/tensor/operator.js", async (original) => {
  const door = await original<typeof import("../../src/tensor/operator.js")>();
  const hasOperator: typeof door.hasOperator = (name, overload) =>
    !lacking.has(name) && door.hasOperator(name, overload);
  return { ...door, hasOperator };
});

import { AdamW, clipGradNorm_, type ParameterUpdate } from "../../src/nn/index.js";
import { free, getMemoryStats, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import reference from "../fixtures/nn.json" with { type: "json" };

type Values = Record<string, number[]>;
const { shapes, start, groups, steps, firstMoments } = reference.adamw as {
  shapes: Values;
  start: Values;
  groups: { names: string[]; decay: number; rate: number }[];
  steps: { rate: number; gates: Values; gradients: Values; parameters: Values }[];
  firstMoments: Values;
};

afterEach(() => lacking.clear());

/** Parameters and moments after the reference's ten steps. `changed` may put another change in a change's place. */
function train(changed = (_name: string, change: ParameterUpdate): ParameterUpdate => change): {
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
  const seen: Values[] = [];
  for (const step of steps) {
    optimizer.setLearningRateFactor(step.rate);
    scope(() => {
      const changes = Object.entries(step.gradients).map(([name, values]): [string, ParameterUpdate] => {
        const gate = step.gates[name];
        const shape = gate?.length === 1 ? [] : shapes[name];
        return [
          name,
          changed(name, { gradient: tensor(values, shapes[name]), mask: gate ? tensor(gate, shape) : null }),
        ];
      });
      optimizer.update(new Map(changes));
    });
    seen.push(Object.fromEntries([...parameters].map(([name, parameter]) => [name, [...parameter.toFloat32Array()]])));
  }
  const first = Object.fromEntries(
    [...parameters.keys()].map((name) => [name, [...optimizer.firstMoment(name).toFloat32Array()]]),
  );
  expect(optimizer.step.item()).toBe(steps.length);
  optimizer.dispose();
  free(parameters);
  return { parameters: seen, first };
}

function expectClose(seen: Values, expected: Values, tolerance: number): void {
  expect(Object.keys(seen)).toEqual(Object.keys(expected));
  for (const [name, values] of Object.entries(expected))
    for (const [i, value] of values.entries())
      expect(Math.abs((seen[name]?.[i] as number) - value), `${name}[${i}]`).toBeLessThan(tolerance);
}

describe("AdamW", () => {
  it("equals PyTorch's for ten steps: groups, falling rates, gates of one number and of one an element", () => {
    const { parameters, first } = train();
    for (const [i, step] of steps.entries()) expectClose(parameters[i] as Values, step.parameters, 2e-6);
    expectClose(first, firstMoments, 1e-6);
  });

  it("in plain operators equals the fused one to 1e-6", () => {
    const fused = train();
    lacking.add("_fused_adamw_");
    const plain = train();
    for (const [i, values] of plain.parameters.entries()) expectClose(values, fused.parameters[i] as Values, 1e-6);
    expectClose(plain.first, fused.first, 1e-6);
  });

  it.each(["fused", "plain"])(
    "a gate of 1 is no gate to the bit, one of 0 leaves the parameter to the bit (%s)",
    (form) => {
      if (form === "plain") lacking.add("_fused_adamw_");
      const constant = (value: number, name: string, whole: boolean): Tensor =>
        tensor(new Float32Array(whole ? (start[name] as number[]).length : 1).fill(value), whole ? shapes[name] : []);
      const none = train((_name, change) => ({ ...change, mask: null }));
      for (const whole of [true, false]) {
        expect(train((name, change) => ({ ...change, mask: constant(1, name, whole) }))).toEqual(none);
        const still = train((name, change) => ({ ...change, mask: constant(0, name, whole) }));
        expectClose(still.parameters.at(-1) as Values, start, 1e-7); // as float32
        expect(still.parameters.at(-1)).toEqual(still.parameters[0]);
        expect(still.first).toEqual(none.first); // the moments go on
      }
    },
  );

  it("takes a replaced gradient: what counts is what it is given", () => {
    const doubled = train((name, change) => (name === "a" ? { ...change, gradient: change.gradient.mul(2) } : change));
    const usual = train();
    expect(doubled.first.a).not.toEqual(usual.first.a);
    for (const [i, value] of (usual.first.a as number[]).entries())
      expect(doubled.first.a?.[i]).toBeCloseTo(2 * value, 6);
    expect(doubled.first.b).toEqual(usual.first.b);
  });

  it("takes a gradient whose memory is transposed for what it is", () => {
    const transposed = (gradient: Tensor): Tensor =>
      gradient.shape.length === 2 ? gradient.t().contiguous().t() : gradient;
    expect(train((_name, change) => ({ ...change, gradient: transposed(change.gradient) }))).toEqual(train());
  });

  it("leaves a parameter without a change alone, moments and all", () => {
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

  it("frees all it made", () => {
    const parameters = new Map([["a", tensor([1, 2])]]);
    const before = getMemoryStats().tensors;
    const optimizer = new AdamW(parameters, [{ names: ["a"], weightDecay: 0, learningRate: 1 }]);
    expect([...optimizer.moments().keys()]).toEqual(["first.a", "second.a"]);
    expect(getMemoryStats().tensors).toBeGreaterThan(before);
    optimizer.dispose();
    expect(getMemoryStats().tensors).toBe(before);
    free(parameters);
  });

  it("names a parameter that it was not given", () => {
    const [known, before] = [tensor([1, 2]), getMemoryStats().tensors];
    expect(() => new AdamW(new Map([["a", known]]), [{ names: ["a", "x"], weightDecay: 0, learningRate: 1 }])).toThrow(
      "no parameter x",
    );
    // What was made before it failed is gone.
    expect(getMemoryStats().tensors).toBe(before);
    free(known);
    expect(() => new AdamW(new Map(), []).firstMoment("y")).toThrow("knows no parameter y");
  });

  it("clipping in an older libtorch's way gives the same", () =>
    scope(() => {
      const gradients = (): Tensor[] => [tensor([3, 4]), tensor([12])];
      const now = gradients();
      clipGradNorm_(now, 1);
      lacking.add("_foreach_mul_");
      const then = gradients();
      clipGradNorm_(then, 1);
      expect(then.map((g) => [...g.toFloat32Array()])).toEqual(now.map((g) => [...g.toFloat32Array()]));
    }));
});
