import type { Device } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Dataset, TokenizedExample } from "./dataset.js";
import type { HostBatch } from "./training-method.js";

/** On a GPU few lengths occur, so that few graphs serve all batches; a CPU pads no more than it must. */
export function getLengthMultiple(device: Device): number {
  return device === "cpu" ? 1 : 16;
}

export function toHostBatch(dataset: Dataset, indices: Int32Array, pad: number, device: Device, part = 0): HostBatch {
  const items = Array.from(indices, (index) => dataset.items[index] as TokenizedExample);
  const encoded = items.map((item) => item.encoding);
  const { maxLength: longest } = dataset;
  return {
    indices,
    items,
    padded: padBatch(encoded, pad, { multiple: getLengthMultiple(device), ...(longest && { maxLength: longest }) }),
    microBatchIndex: part,
  };
}
