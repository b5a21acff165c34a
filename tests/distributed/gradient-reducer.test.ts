import { expect, it } from "vitest";
import { grad, gradOrNull, ProcessGroup, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import { findFreePort, hasProcessGroups } from "./processes.js";

const read = (tensors: readonly Tensor[]): number[][] => tensors.map((item) => [...item.toFloat32Array()]);

it.runIf(hasProcessGroups)(
  "sums the gradients of a backward pass, in the order and shape of the parameters",
  async () => {
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
        // The hooks have replaced the gradients by parts of the buckets: they share their memory.
        sums[1]!.fill_(9);
        expect(read([during[1]!])).toEqual([[9, 9]]);
      }
      // Other backward passes are not changed.
      expect(read(grad(computeLoss(), [used]))).toEqual([[2, 4, 6, 8]]);
      reducer.dispose();
      expect(read(grad(computeLoss(), [twice]))).toEqual([[11, 13]]);
    });
    group.close();
  },
);
