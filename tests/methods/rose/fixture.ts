import { readFileSync } from "node:fs";
import { type Tensor, tensor } from "../../../src/tensor/index.js";
import { expectClose, getLargest, type Rounding } from "../../rounding.js";

/** A tensor of the fixture. */
export interface Saved {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

type Tensors = Readonly<Record<string, Saved>>;

export interface Fixture {
  divergence: {
    inputs: Saved;
    weights: [Saved, Saved];
    masks: [Saved, Saved];
    divergence: Saved;
    norms: Saved;
    labels: number[];
    logits: [Saved, Saved];
    rDrop: Tensors;
  };
  masks: { name: string; risks: number[]; keep: number; rank: Saved; quantile: Saved }[];
  algorithm: {
    settings: Record<"rate" | "beta1" | "beta2" | "epsilon" | "decay" | "keepFirst" | "keepSecond" | "gamma", number>;
    start: Tensors;
    sequence: { g: Tensors; kl: Tensors }[];
    cases: {
      order: "first" | "second" | "ensemble";
      masks: Saved[];
      risks: { first: Saved; second: Saved }[];
      parameters: Tensors;
      first: Tensors;
      second: Tensors;
    }[];
  };
  model: { config: object; weights: Tensors };
  texts: { ids: number[]; label: number }[];
  smart: {
    stepSize: number;
    epsilon: number;
    steps: number;
    start: Saved;
    cases: Record<"paper" | "code", { noise: Saved; smoothness: Saved; table: Saved; query: Saved }>;
    slow: Tensors;
    proximity: Saved;
  };
}

export const fixture = JSON.parse(readFileSync("tests/fixtures/methods/rose-family.json", "utf8")) as Fixture;

export function toTensor(saved: Saved): Tensor {
  return tensor(Float32Array.from(saved.values), saved.shape);
}

export function toTensors(saved: Tensors): Map<string, Tensor> {
  return new Map(Object.entries(saved).map(([name, value]) => [name, toTensor(value)]));
}

/** Formulas without cancellation round a few times per term. */
export const fewRoundings: Rounding = { terms: 80 };

export function expectAllClose(actual: ReadonlyMap<string, Tensor>, expected: Tensors): void {
  for (const [name, saved] of Object.entries(expected)) {
    // What is 0 in exact arithmetic is a sum of terms that cancel.
    const scale = Math.max(1e-3, getLargest(saved.values));
    expectClose(actual.get(name), saved, { ...fewRoundings, scale }, name);
  }
}
