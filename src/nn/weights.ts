import type { Tensor } from "../tensor/index.js";

/** A model's parameters under their checkpoint names. A model is a pure function of these and an input. */
export type Weights = ReadonlyMap<string, Tensor>;

/** The parameter of that name. */
export function getParameter(weights: Weights, name: string): Tensor {
  const found = weights.get(name);
  if (!found) throw new Error(`the weights hold no ${name}`);
  return found;
}

/** The same names, each tensor replaced. */
export function mapWeights(weights: Weights, change: (tensor: Tensor, name: string) => Tensor): Map<string, Tensor> {
  const changed = new Map<string, Tensor>();
  for (const [name, tensor] of weights) changed.set(name, change(tensor, name));
  return changed;
}
