import { canPackTexts, readStagedInput, toNamedArrays } from "../models/index.js";
import { type HostTensor, type Tensor, tensor } from "../tensor/index.js";
import { bucketLength, padBatch } from "../text/batch.js";
import type { Batch, HostBatch } from "./batch.js";
import type { TrainingJob } from "./training-method.js";

/** GPU batches have few lengths, for few CUDA graphs. CPU batches have little padding. */
const lengthMultiple = { cpu: 1, gpu: 16 };

export function getPadding({ train, deviceConfig }: Pick<TrainingJob, "train" | "deviceConfig">): {
  readonly multiple: number;
  readonly maxLength?: number;
} {
  const multiple = deviceConfig.device === "cpu" ? lengthMultiple.cpu : lengthMultiple.gpu;
  return { multiple, ...(train.maxLength && { maxLength: train.maxLength }) };
}

/** Collects and pads training examples, at least to the length `longest`. */
export function toHostBatch(
  { train, model, deviceConfig }: Pick<TrainingJob, "train" | "model" | "deviceConfig">,
  indices: Int32Array,
  { epoch = 0, longest }: { readonly epoch?: number; readonly longest?: number } = {},
): HostBatch {
  const padding = getPadding({ train, deviceConfig });
  const items = Array.from(indices, (index) => train.items[index]!);
  const padded = padBatch(
    items.map(({ encoding }) => encoding),
    model.tokenizer.special.padId,
    longest === undefined ? padding : { length: bucketLength(longest, padding.multiple, padding.maxLength) },
  );
  const labels = Int32Array.from(items, ({ example }) => example.label);
  return { indices, items, padded, labels, epoch };
}

const extraPrefix = "extra.";

/** Every array of a batch by name: the input, the labels, and those that the methods add. */
export function collectHostArrays(
  host: HostBatch,
  { model, deviceConfig, methods }: Pick<TrainingJob, "model" | "deviceConfig" | "methods">,
): Map<string, HostTensor> {
  const { config } = model.architecture;
  const { labels } = host;
  const arrays = toNamedArrays(host.padded, config, canPackTexts(config, deviceConfig));
  arrays.set("labels", { values: labels, shape: [labels.length] });
  for (const method of methods)
    for (const [name, array] of Object.entries(method.collate?.(host) ?? {})) arrays.set(extraPrefix + name, array);
  return arrays;
}

export function toBatch(job: Pick<TrainingJob, "model" | "deviceConfig" | "methods">, host: HostBatch): Batch {
  const { device } = job.deviceConfig;
  const tensors = new Map(
    [...collectHostArrays(host, job)].map(([name, { values, shape }]) => [name, tensor(values, shape, { device })]),
  );
  return createBatch(host, (name) => tensors.get(name) ?? null);
}

export function createBatch(host: HostBatch, get: (name: string) => Tensor | null): Batch {
  return {
    input: readStagedInput({ get }),
    labels: get("labels") as Tensor,
    batchSize: host.padded.batchSize,
    sequenceLength: host.padded.sequenceLength,
    hasExtra: (name) => get(extraPrefix + name) !== null,
    getExtra(name) {
      const extra = get(extraPrefix + name);
      if (!extra) throw new Error(`No method added ${name} to the batch.`);
      return extra;
    },
  };
}
