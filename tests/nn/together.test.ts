import fc from "fast-check";
import { expect, test } from "vitest";
import { flattenTensors, unflattenTensors } from "../../src/nn/index.js";
import { grad, randn, scope, type Tensor } from "../../src/tensor/index.js";

const shapes = fc.array(fc.array(fc.nat(3), { maxLength: 3 }), { minLength: 1, maxLength: 5 });

test("tensors put together and taken apart are what they were, and so are their gradients", () => {
  fc.assert(
    fc.property(shapes, (list) =>
      scope(() => {
        const tensors = list.map((shape) => randn(shape).requiresGrad_());
        const pieces = unflattenTensors(flattenTensors(tensors), list);
        expect(pieces.map(({ shape }) => shape)).toEqual(list);
        expect(pieces.map((piece) => piece.toFloat32Array())).toEqual(tensors.map((tensor) => tensor.toFloat32Array()));
        const squares = pieces.map((piece) => piece.square().sum());
        for (const [i, gradient] of grad(squares, tensors).entries())
          expect(gradient.toFloat32Array()).toEqual((tensors[i] as Tensor).mul(2).toFloat32Array());
      }),
    ),
  );
});
