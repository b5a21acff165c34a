import { canPackTexts, readStagedInput, type TokenInput, toModelInput, toNamedArrays } from "../models/index.js";
import { type Device, type HostTensor, StagingBuffers, type Tensor, tensor } from "../tensor/index.js";
import { bucketLength, padBatch } from "../text/batch.js";
import type { Batch, HostBatch } from "./batch.js";
import type { NamedTensors, TrainingJob, TrainingMethod } from "./training-method.js";

/** GPU batches have few lengths, for few CUDA graphs. CPU batches have little padding. */
const lengthMultiple = { cpu: 1, gpu: 16 };

/** Returns the padding of texts on a device. */
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

/** Copies a batch to the device, together with the arrays that the methods add. */
export function toBatch(job: BatchJob, host: HostBatch): Batch {
  const { device } = job.deviceConfig;
  const { config } = job.model.architecture;
  const input = toModelInput(host.padded, config, device, canPackTexts(config, job.deviceConfig));
  const labels = tensor(host.labels, undefined, { device });
  const extras = new Map(
    collateExtras(job, host).map(([name, { values, shape }]) => [name, tensor(values, shape, { device })]),
  );
  return createBatch(host, input, labels, extras);
}

type BatchJob = Pick<TrainingJob, "model" | "deviceConfig"> & { readonly methods: readonly TrainingMethod[] };

function collateExtras({ methods }: Pick<BatchJob, "methods">, host: HostBatch): [string, HostTensor][] {
  return methods.flatMap((method) => Object.entries(method.collate?.(host) ?? {}));
}

function createBatch(host: HostBatch, input: TokenInput, labels: Tensor, extras: NamedTensors): Batch {
  return {
    input,
    labels,
    batchSize: host.padded.batchSize,
    sequenceLength: host.padded.sequenceLength,
    hasExtra: (name) => extras.has(name),
    getExtra(name) {
      const extra = extras.get(name);
      if (!extra) throw new Error(`No method added ${name} to the batch.`);
      return extra;
    },
  };
}

const extraPrefix = "extra.";

/** Every array of a batch by name: the input, the labels, and those that the methods add. */
export function collectHostArrays(host: HostBatch, job: BatchJob): Map<string, HostTensor> {
  const { config } = job.model.architecture;
  const { labels } = host;
  const arrays = toNamedArrays(host.padded, config, canPackTexts(config, job.deviceConfig));
  arrays.set("labels", { values: labels, shape: [labels.length] });
  for (const [name, array] of collateExtras(job, host)) arrays.set(extraPrefix + name, array);
  return arrays;
}

/** Device tensors at fixed addresses, for all batches of one shape. */
export class DeviceBuffers {
  readonly #staging: StagingBuffers;
  readonly #extras: ReadonlyMap<string, Tensor>;

  constructor(arrays: ReadonlyMap<string, HostTensor>, device: Device) {
    const staging = new StagingBuffers(arrays, device);
    const names = [...staging.names].filter((name) => name.startsWith(extraPrefix));
    this.#extras = new Map(names.map((name) => [name.slice(extraPrefix.length), staging.get(name) as Tensor]));
    this.#staging = staging;
  }

  /** Starts to copy a batch to the device. The host does not wait for the copy. */
  fill(host: HostBatch, arrays: ReadonlyMap<string, HostTensor>): Batch {
    this.#staging.fill(arrays);
    return createBatch(host, readStagedInput(this.#staging), this.#staging.get("labels") as Tensor, this.#extras);
  }

  dispose(): void {
    this.#staging.dispose();
  }
}
