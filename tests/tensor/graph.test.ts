import { describe, expect, test, vi } from "vitest";
import { free, freeEvents, newEvent, ones, sideBySide, tensor, useRecordableStream } from "../../src/tensor/index.js";

const { useStream, branches } = vi.hoisted(() => ({ useStream: vi.fn(), branches: [] as string[] }));

// Which GPU is taken, and what it is told to do, shows without one; the rest of the engine is the real one.
vi.mock("../../src/tensor/native.js", async (original) => ({
  ...(await original<typeof import("../../src/tensor/native.js")>()),
  nativeCuda: () => ({
    useStream,
    branchesFork: (count: number) => branches.push(`fork ${count}`),
    branchEnter: (branch: number) => branches.push(`enter ${branch}`),
    branchesJoin: (count: number) => branches.push(`join ${count}`),
  }),
}));

describe("the GPU of a process", () => {
  test("is the one that was named, taken once; another is refused", () => {
    useRecordableStream("cuda:1");
    useRecordableStream("cuda:1");
    expect(useStream.mock.calls).toEqual([[1]]);
    expect(() => useRecordableStream("cuda")).toThrow(
      "works on cuda:1 already, received cuda; run what is for another GPU in a process",
    );
  });
});

test("marks in the GPU's queue are used again, so that a long run never has too many", () => {
  const first = [newEvent(), newEvent()];
  expect(new Set(first).size).toBe(2);
  freeEvents(first);
  expect(new Set([newEvent(), newEvent()])).toEqual(new Set(first));
  expect(first).not.toContain(newEvent());
});

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
    expect(targets.map((target) => target.toFloat32Array()[0])).toEqual([2, 3, 4]);
    expect(order).toEqual([0, 1, 2]);
    free([...targets, one]);
  });

  test("on a GPU in branches that are joined again, also where a task fails; its error comes through", () => {
    const failing = (): void => {
      throw new Error("no such luck");
    };
    expect(() => sideBySide("cuda", [() => undefined, failing, () => undefined])).toThrow("no such luck");
    expect(branches.splice(0)).toEqual(["fork 3", "enter 0", "enter 1", "join 3"]);
    sideBySide(
      "cuda",
      Array.from({ length: 17 }, () => () => undefined),
    );
    expect(branches.slice(-3)).toEqual(["enter 15", "enter 0", "join 16"]);
  });
});
