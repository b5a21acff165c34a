import { getNumel, unflattenTensors } from "../nn/index.js";
import { bernoulli_, type Device, dropoutMask, empty, noGrad, scope, type Tensor } from "../tensor/index.js";

/** Masks of these shapes: 1 / part for about this part (in (0, 1]) of their elements, so that the mean is 1, and 0 for the others. */
export function sampleMask(shapes: readonly (readonly number[])[], part: number, device: Device): Tensor[] {
  return noGrad(() =>
    scope(() => {
      // On a CPU libtorch draws with one thread, a number at a time.
      if (device === "cpu") return shapes.map((shape) => dropoutMask(shape, 1 - part, "float32"));
      const all = empty([shapes.reduce((sum, shape) => sum + getNumel(shape), 0)], { device });
      bernoulli_(all, part);
      return unflattenTensors(all.div_(part), shapes);
    }),
  );
}
