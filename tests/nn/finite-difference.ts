import { expect } from "vitest";
import { grad, Rng, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import { unitRoundoff } from "../rounding.js";

/** Random float64 values away from 0, where some functions are not differentiable. */
function values(count: number, seed: string): Float64Array {
  const rng = new Rng(seed);
  return Float64Array.from({ length: count }, () => {
    const value = rng.normal();
    return Math.abs(value) < 0.05 ? value + 0.2 : value;
  });
}

/**
 * Compares the gradient of a function of float64 tensors with central differences, element by
 * element. The output is summed with fixed random weights, because a plain sum may be constant.
 */
export function checkGradients(shapes: readonly (readonly number[])[], compute: (...inputs: Tensor[]) => Tensor): void {
  const sizes = shapes.map((shape) => shape.reduce((product, size) => product * size, 1));
  const points = sizes.map((size, i) => values(size, `input ${i}`));
  const double = { dtype: "float64" } as const;
  const total = (inputs: Tensor[]): Tensor => {
    const output = compute(...inputs);
    return output.mul(tensor(values(output.numel, "weights"), output.shape, double)).sum();
  };
  const inputs = (): Tensor[] => points.map((point, i) => tensor(point, shapes[i], double));
  const analytic = scope(() => {
    const leaves = inputs().map((input) => input.requiresGrad_());
    return grad(total(leaves), leaves).map((gradient) => new Float64Array(gradient.toBytes().buffer));
  });
  const step = 1e-5;
  for (const [i, point] of points.entries()) {
    for (let k = 0; k < point.length; k++) {
      const at = point[k] as number;
      const evaluateAt = (shift: number): number => {
        point[k] = at + shift;
        return scope(() => total(inputs()).item());
      };
      const computeDifference = (shift: number): number => (evaluateAt(shift) - evaluateAt(-shift)) / (2 * shift);
      const [numeric, wider] = [computeDifference(step), computeDifference(2 * step)];
      const size = Math.abs(evaluateAt(0));
      point[k] = at;
      const exact = analytic[i]?.[k] as number;
      // Twice the step has four times the error of truncation. Rounding is divided by the step.
      const rounding = (unitRoundoff.float64 * Math.max(1, size) * 64) / step;
      expect(Math.abs(numeric - exact), `input ${i}[${k}]: ${exact}, finite difference ${numeric}`).toBeLessThan(
        Math.abs(wider - numeric) + rounding,
      );
    }
  }
}
