import { expect, it } from "vitest";
import { grad, gradOrNull, ProcessGroup, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import { nativeDistributed } from "../../src/tensor/native.js";
import { findFreePort } from "./processes.js";

const read = (tensors: readonly Tensor[]): number[][] => tensors.map((item) => [...item.toFloat32Array()]);

it("sums the gradients of a backward pass, in the order and shape of the parameters", async () => {
  const group = ProcessGroup.open({ rank: 0, size: 1, host: "127.0.0.1", port: await findFreePort(), timeout: 5 });
  scope(() => {
    const [used, twice, unused] = [[1, 2, 3, 4], [5, 6], [7]].map((values) => tensor(values).requiresGrad_()) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    const parameters = [used, twice, unused];
    const reducer = group.createReducer(parameters);
    const computeLoss = (): Tensor => used.square().sum().add(twice.mul(twice).sum()).add(twice.sum());
    for (let step = 0; step < 2; step++) {
      let during: (Tensor | null)[] = [];
      const sums = reducer.sumGradients(() => {
        during = gradOrNull(computeLoss(), parameters);
      });
      expect(read(sums)).toEqual([[2, 4, 6, 8], [11, 13], [0]]);
      expect(sums.map(({ shape }) => shape)).toEqual(parameters.map(({ shape }) => shape));
      // The hooks have replaced the gradients, whose memory is free. Nothing shares the buckets that Gloo writes.
      expect(read([during[1]!])).toEqual([[Number.NaN, Number.NaN]]);
    }
    // Other backward passes are not changed.
    expect(read(grad(computeLoss(), [used]))).toEqual([[2, 4, 6, 8]]);
    reducer.dispose();
    expect(read(grad(computeLoss(), [twice]))).toEqual([[11, 13]]);
  });
  group.close();
});

it("refuses buckets that do not fit the parameters before it adds a hook", async () => {
  const port = await findFreePort();
  const native = nativeDistributed();
  native.storeOpen("127.0.0.1", port, true, 5, "");
  const group = native.groupOpen("gloo", "gloo", 0, 1, "127.0.0.1", 5);
  scope(() => {
    const [first, second] = [tensor([1]).requiresGrad_(), tensor([2]).requiresGrad_()];
    const open = (parameters: Tensor[], buckets: number[]): unknown =>
      native.reducerOpen(
        group,
        parameters.map(({ handle }) => handle),
        buckets,
      );
    expect(() => open([first, second], [0])).toThrow("expected a bucket per parameter");
    for (const buckets of [
      [1, 1],
      [0, 2],
      [0, -1],
    ])
      expect(() => open([first, second], buckets)).toThrow("expected buckets from 0 on, in order");
    expect(() => open([first, tensor([3])], [0, 0])).toThrow("that require gradients");
    expect(read(grad(first.square().sum(), [first]))).toEqual([[2]]);
  });
  native.groupClose(group);
  native.storeClose();
});
