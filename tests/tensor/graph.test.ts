import { describe, expect, test, vi } from "vitest";
import {
  acquireEvent,
  free,
  ones,
  releaseEvents,
  runOnParallelStreams,
  tensor,
  useCapturableStream,
} from "../../src/tensor/index.js";

const { useStream, branches } = vi.hoisted(() => ({ useStream: vi.fn(), branches: [] as string[] }));

// Only the CUDA functions are mocked, so the test needs no GPU.
vi.mock("../../src/tensor/native.js", async (original) => ({
  ...(await original<typeof import("../../src/tensor/native.js")>()),
  nativeCuda: () => ({
    useStream,
    branchesFork: (count: number) => branches.push(`fork ${count}`),
    branchEnter: (branch: number) => branches.push(`enter ${branch}`),
    branchesJoin: (count: number) => branches.push(`join ${count}`),
  }),
}));

describe("useCapturableStream", () => {
  test("selects the GPU once and rejects another one", () => {
    useCapturableStream("cuda:1");
    useCapturableStream("cuda:1");
    expect(useStream.mock.calls).toEqual([[1]]);
    expect(() => useCapturableStream("cuda")).toThrow(
      "this process already uses cuda:1, received cuda. Use a separate process per GPU.",
    );
  });
});

test("released CUDA events are reused", () => {
  const first = [acquireEvent(), acquireEvent()];
  expect(new Set(first).size).toBe(2);
  releaseEvents(first);
  expect(new Set([acquireEvent(), acquireEvent()])).toEqual(new Set(first));
  expect(first).not.toContain(acquireEvent());
});

describe("runOnParallelStreams", () => {
  test("runs all tasks in order on a CPU", () => {
    const targets = [1, 2, 3].map((value) => tensor([value], [1]));
    const order: number[] = [];
    const one = ones([1]);
    runOnParallelStreams(
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

  test("joins the branches on a GPU even if a task fails, and rethrows the error", () => {
    const failing = (): void => {
      throw new Error("task failed");
    };
    expect(() => runOnParallelStreams("cuda", [() => undefined, failing, () => undefined])).toThrow("task failed");
    expect(branches.splice(0)).toEqual(["fork 3", "enter 0", "enter 1", "join 3"]);
    runOnParallelStreams(
      "cuda",
      Array.from({ length: 17 }, () => () => undefined),
    );
    expect(branches.slice(-3)).toEqual(["enter 15", "enter 0", "join 16"]);
  });
});
