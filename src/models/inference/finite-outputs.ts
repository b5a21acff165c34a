import { UserError } from "../../base/errors.js";

/**
 * Returns what a model computed, and throws if it contains NaN or infinity. The weights can be
 * finite and still too large: one changed bit of an exponent is enough.
 */
export function checkOutputs(values: Float32Array): Float32Array {
  if (values.every(Number.isFinite)) return values;
  throw new UserError(
    "The model computes NaN or infinity. Its weights are damaged, or its training diverged. Download it again, " +
      "or train it again with a lower learning rate. With --precision bf16, try fp32.",
  );
}
