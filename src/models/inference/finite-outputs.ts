import { UserError } from "../../base/errors.js";

/** Throws if a model computed NaN or infinity. Finite weights can still be too large. */
export function checkOutputs(values: Float32Array): Float32Array {
  if (values.every(Number.isFinite)) return values;
  throw new UserError(
    "The model computes NaN or infinity. Its weights are damaged, or its training diverged. Download it again, " +
      "or train it again with a lower learning rate. With --precision bf16, try fp32.",
  );
}
