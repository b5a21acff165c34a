import fc from "fast-check";
import { expect, test } from "vitest";
import { flattenTensors, unflattenTensors } from "../../src/nn/index.js";
import { grad, randn, scope, type Tensor } from "../../src/tensor/index.js";

const shapes = fc.array(fc.array(fc.nat(3), { maxLength: 3 }), { minLength: 1, maxLength: 5 });

test("unflattenTensors restores flattened tensors and their gradients", () => {
  fc.assert(
    fc.property(shapes, (list) =>
      scope(() => {
        const tensors = list.map((shape) => randn(shape).requiresGrad_());
        const parts = unflattenTensors(flattenTensors(tensors), list);
        expect(parts.map(({ shape }) => shape)).toEqual(list);
        expect(parts.map((part) => part.toFloat32Array())).toEqual(tensors.map((tensor) => tensor.toFloat32Array()));
        const squares = parts.map((part) => part.square().sum());
        for (const [i, gradient] of grad(squares, tensors).entries())
          expect(gradient.toFloat32Array()).toEqual((tensors[i] as Tensor).mul(2).toFloat32Array());
      }),
    ),
  );
});
