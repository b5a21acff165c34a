import type { EncoderConfig } from "./families/family.js";
import { type Architecture, getParameterShapes } from "./model.js";

/** Counts the parameters of a model that need not be loaded. */
export function countModelParameters(architecture: Architecture): number {
  return [...getParameterShapes(architecture).values()].reduce(
    (sum, shape) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );
}

/** Counts the FLOPs of the matrix products in a forward pass of texts of one length. */
export function countForwardFlops(
  { hiddenSize, intermediateSize, numHiddenLayers }: EncoderConfig,
  numTexts: number,
  length: number,
): number {
  const projections = 8 * hiddenSize ** 2;
  const scores = 4 * hiddenSize * length;
  const feedForward = 4 * hiddenSize * intermediateSize;
  return numTexts * length * numHiddenLayers * (projections + scores + feedForward);
}
