import { extractFeatures, forward, type Model, type TokenInput, toModelInput } from "../models/index.js";
import { crossEntropy, evalMode, type Weights } from "../nn/index.js";
import { sampleExamples } from "../tasks/sample.js";
import type { Example, Split, Task } from "../tasks/task.js";
import { type Device, free, keep, noGrad, scope, stack, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import { lengthBatches, toDataset } from "../train/index.js";

/** A sample of a split: class-balanced, the same for the same seed. */
export async function loadExampleSample(
  task: Task,
  split: Split,
  count: number,
  seed: number,
): Promise<readonly Example[]> {
  return sampleExamples(await task.load(split), count, seed, task.labels.length);
}

/** Examples on the device, ready to be asked about again and again. */
export interface FixedBatch {
  readonly examples: number;
  /** Mean cross-entropy and accuracy under any weights of the model, without dropout. */
  measure(weights: Weights): LossAndAccuracy;
  /** Features under any weights, a row an example, in the examples' order. */
  features(weights: Weights): Float32Array[];
  free(): void;
}

export interface LossAndAccuracy {
  readonly loss: number;
  readonly accuracy: number;
}

interface MicroBatch {
  readonly rows: readonly number[];
  readonly input: TokenInput;
  readonly labels: Tensor;
}

const tokensPerMicroBatch = { cpu: 4096, gpu: 65_536 };

export function createFixedBatch(model: Model, examples: readonly Example[], device: Device): FixedBatch {
  const { items } = toDataset(model, examples);
  const encoded = items.map((item) => item.encoding);
  const parts = lengthBatches(encoded, tokensPerMicroBatch[device === "cpu" ? "cpu" : "gpu"]).map(
    (rows): MicroBatch => {
      const padded = padBatch(
        rows.map((row) => encoded[row]!),
        model.tokenizer.special.padId,
      );
      const labels = Int32Array.from(rows, (row) => items[row]!.example.label);
      return {
        rows,
        ...keep({ input: toModelInput(padded, device), labels: tensor(labels, [rows.length], { device }) }),
      };
    },
  );
  return {
    examples: items.length,
    measure(weights) {
      let [loss, right] = [0, 0];
      for (const { rows, input, labels } of parts) {
        const [mean, hits] = scope(() => noGrad(() => measureMicroBatch(model, weights, input, labels)));
        loss += mean! * rows.length;
        right += hits!;
      }
      return { loss: loss / items.length, accuracy: right / items.length };
    },
    features(weights) {
      const found: Float32Array[] = [];
      for (const { rows, input } of parts) {
        const values = scope(() =>
          noGrad(() => extractFeatures(model.architecture, weights, input, evalMode).toFloat32Array()),
        );
        const width = values.length / rows.length;
        for (const [i, row] of rows.entries()) found[row] = values.slice(i * width, (i + 1) * width);
      }
      return found;
    },
    free: () => free(parts),
  };
}

/** The mean loss, and how many are right. */
function measureMicroBatch(
  { architecture: shape }: Model,
  weights: Weights,
  input: TokenInput,
  labels: Tensor,
): Float32Array {
  const { logits } = forward(shape, weights, input, evalMode);
  const right = logits.argmax(-1).eq(labels).to("float32").sum();
  return stack([crossEntropy(logits, labels), right], 0).toFloat32Array();
}
