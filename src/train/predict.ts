import { type EncoderInput, forward, type Model, toInput } from "../models/index.js";
import { evaluating, mapWeights, type Weights } from "../nn/index.js";
import { type DataType, type Device, free, keep, noGrad, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoded } from "../text/encoding.js";

/** Where and in which type a model is computed. */
export interface Placement {
  readonly device: Device;
  readonly compute: DataType;
}

export const onCpu: Placement = { device: "cpu", compute: "float32" };

/** Tokens a batch holds at most: enough to fill the machine, little enough to stay in its cache. */
const tokensPerBatch = { cpu: 4096, gpu: 65536 };

/**
 * Class probabilities of encoded texts, in their order: batches are filled with texts of like length, without gradients, and the
 * event loop gets a turn after each. Row i of the result is text i.
 */
export async function probabilitiesOf(
  model: Model,
  weights: Weights,
  encoded: readonly Encoded[],
  placement: Placement = onCpu,
  onBatch?: (done: number) => void,
): Promise<Float32Array[]> {
  const results = new Array<Float32Array>(encoded.length);
  const classes = model.shape.classes;
  const used =
    placement.compute === "float32" ? weights : noGrad(() => keep(mapWeights(weights, (tensor) => tensor.to(placement.compute))));
  let done = 0;
  try {
    for (const batch of lengthBatches(encoded, placement.device === "cpu" ? tokensPerBatch.cpu : tokensPerBatch.gpu)) {
      const values = scope(() =>
        noGrad(() => {
          const input: EncoderInput = toInput(
            padBatch(
              batch.map((i) => encoded[i] as Encoded),
              model.tokenizer.special.pad,
            ),
            placement.device,
          );
          return forward(model.shape, used, input, evaluating).logits.softmax(-1).floats();
        }),
      );
      for (const [row, index] of batch.entries()) results[index] = values.slice(row * classes, (row + 1) * classes);
      done += batch.length;
      onBatch?.(done);
      await new Promise(setImmediate);
    }
  } finally {
    if (used !== weights) free(used);
  }
  return results;
}

/** Indices in batches of like length, longest first, so that too little memory shows at once. */
export function lengthBatches(encoded: readonly Encoded[], tokens: number): number[][] {
  const order = [...encoded.keys()].sort((a, b) => (encoded[b] as Encoded).ids.length - (encoded[a] as Encoded).ids.length || a - b);
  const batches: number[][] = [];
  let current: number[] = [];
  let longest = 0;
  for (const index of order) {
    const length = (encoded[index] as Encoded).ids.length;
    if (current.length > 0 && (current.length + 1) * longest > tokens) {
      batches.push(current);
      current = [];
    }
    if (current.length === 0) longest = length;
    current.push(index);
  }
  if (current.length > 0) batches.push(current);
  return batches;
}
