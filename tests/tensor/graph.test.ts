import { describe, expect, test } from "vitest";
import { free, ones, sideBySide, tensor } from "../../src/tensor/index.js";

describe("work side by side", () => {
  test("does every task; on a CPU in their order", () => {
    const targets = [1, 2, 3].map((value) => tensor([value], [1]));
    const order: number[] = [];
    const one = ones([1]);
    sideBySide(
      "cpu",
      targets.map((target, i) => () => {
        target.add_(one);
        order.push(i);
      }),
    );
    expect(targets.map((target) => target.floats()[0])).toEqual([2, 3, 4]);
    expect(order).toEqual([0, 1, 2]);
    free([...targets, one]);
  });

  test("a task's error comes through", () => {
    const failing = (): void => {
      throw new Error("no such luck");
    };
    expect(() => sideBySide("cpu", [() => undefined, failing])).toThrow("no such luck");
  });
});
