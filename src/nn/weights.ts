import type { Tensor } from "../tensor/index.js";

/** The parameters of a model by checkpoint name. */
export type Weights = ReadonlyMap<string, Tensor>;

export function getParameter(weights: Weights, name: string): Tensor {
  const parameter = weights.get(name);
  if (!parameter) throw new Error(`there is no parameter ${name} in the weights`);
  return parameter;
}

export function mapWeights(weights: Weights, replace: (tensor: Tensor, name: string) => Tensor): Map<string, Tensor> {
  return new Map([...weights].map(([name, tensor]) => [name, replace(tensor, name)]));
}
