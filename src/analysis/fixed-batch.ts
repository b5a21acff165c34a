import { featureOf, forward, type Model, type TokenInput, toInput } from "../models/index.js";
import { crossEntropy, evaluating, type Weights } from "../nn/index.js";
import { limitExamples } from "../tasks/sample.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Device, free, keep, noGrad, scope, stack, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import { lengthBatches, toDataset } from "../train/index.js";

/** A sample of a split: class-balanced, the same for the same seed. */
export async function sampleOf(task: Task, split: Split, count: number, seed: number): Promise<readonly Example[]> {
  return limitExamples(await task.load(split), count, seed, task.labels.length);
}

/** Examples on the device, ready to be asked about again and again. */
export interface FixedBatch {
  readonly examples: number;
  /** Mean cross-entropy and accuracy under any weights of the model, without dropout. */
  measure(weights: Weights): Measured;
  /** Features under any weights, a row an example, in the examples' order. */
  features(weights: Weights): Float32Array[];
  free(): void;
}

export interface Measured {
  readonly loss: number;
  readonly accuracy: number;
}

interface Part {
  readonly rows: readonly number[];
  readonly input: TokenInput;
  readonly labels: Tensor;
}

const tokensPerPart = { cpu: 4096, gpu: 65_536 };

export function openFixedBatch(model: Model, examples: readonly Example[], device: Device): FixedBatch {
  const { items } = toDataset(model, examples);
  const encoded = items.map((item) => item.encoded);
  const parts = lengthBatches(encoded, tokensPerPart[device === "cpu" ? "cpu" : "gpu"]).map((rows): Part => {
    const padded = padBatch(
      rows.map((row) => encoded[row]!),
      model.tokenizer.special.pad,
    );
    const labels = Int32Array.from(rows, (row) => items[row]!.example.label);
    return { rows, ...keep({ input: toInput(padded, device), labels: tensor(labels, [rows.length], { device }) }) };
  });
  return {
    examples: items.length,
    measure(weights) {
      let [loss, right] = [0, 0];
      for (const { rows, input, labels } of parts) {
        const [mean, hits] = scope(() => noGrad(() => measurePart(model, weights, input, labels)));
        loss += mean! * rows.length;
        right += hits!;
      }
      return { loss: loss / items.length, accuracy: right / items.length };
    },
    features(weights) {
      const found: Float32Array[] = [];
      for (const { rows, input } of parts) {
        const values = scope(() => noGrad(() => featureOf(model.shape, weights, input, evaluating).floats()));
        const width = values.length / rows.length;
        for (const [i, row] of rows.entries()) found[row] = values.slice(i * width, (i + 1) * width);
      }
      return found;
    },
    free: () => free(parts),
  };
}

/** The mean loss, and how many are right. */
function measurePart({ shape }: Model, weights: Weights, input: TokenInput, labels: Tensor): Float32Array {
  const { logits } = forward(shape, weights, input, evaluating);
  const right = logits.argmax(-1).eq(labels).to("float32").sum();
  return stack([crossEntropy(logits, labels), right], 0).floats();
}
