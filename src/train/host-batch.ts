import type { Device } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Dataset, Item } from "./dataset.js";
import type { HostBatch } from "./layer.js";

/** On a GPU few lengths occur, so that few graphs serve all batches; a CPU pads no more than it must. */
export function lengthMultiple(device: Device): number {
  return device === "cpu" ? 1 : 16;
}

export function toHostBatch(dataset: Dataset, indices: Int32Array, pad: number, device: Device, part = 0): HostBatch {
  const items = Array.from(indices, (index) => dataset.items[index] as Item);
  const encoded = items.map((item) => item.encoded);
  const { longest } = dataset;
  return { indices, items, padded: padBatch(encoded, pad, { multiple: lengthMultiple(device), ...(longest && { most: longest }) }), part };
}
