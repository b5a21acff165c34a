import { getEncoderPart } from "../models/index.js";
import type { Weights } from "../nn/index.js";
import { noGrad, scope, stack, type Tensor } from "../tensor/index.js";

/** The relative L2 distances ||weights - origin|| / ||origin|| of the encoder and its parts (RIFT fig. 2). */
export function computeRelativeDistances(weights: Weights, origin: Weights): Record<string, number> {
  const names = [...origin.keys()].filter((name) => getEncoderPart(name) !== null);
  const norms = scope(() =>
    noGrad(() => {
      const pairs = names.flatMap((name) => {
        const before = origin.get(name) as Tensor;
        const now = weights.get(name);
        if (!now) throw new Error(`The weights have no parameter ${name}.`);
        return [now.detach().sub(before).norm(), before.norm()];
      });
      // Read all norms at once, because each read waits for the device.
      return stack(pairs, 0).toFloat32Array();
    }),
  );
  const sums = new Map<string, { moved: number; size: number }>([["all", { moved: 0, size: 0 }]]);
  for (const [i, name] of names.entries()) {
    for (const part of ["all", getEncoderPart(name) as string]) {
      const sum = sums.get(part) ?? { moved: 0, size: 0 };
      sums.set(part, {
        moved: sum.moved + (norms[2 * i] as number) ** 2,
        size: sum.size + (norms[2 * i + 1] as number) ** 2,
      });
    }
  }
  return Object.fromEntries([...sums].map(([part, { moved, size }]) => [part, Math.sqrt(moved / size)]));
}
