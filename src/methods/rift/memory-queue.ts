import { arange, cat, type Device, keep, scope, sort, type Tensor, zeros } from "../../tensor/index.js";
import type { NamedTensors } from "../../train/index.js";

/**
 * The last teacher projections of each class, used as additional negatives. New entries are added
 * at the end. The shapes never change, so that a step with a queue can be captured.
 */
export class MemoryQueue {
  readonly #entries: Tensor; // [class, slot, out]
  readonly #filled: Tensor; // [class, slot]: 1 if the slot has an entry
  readonly #prefix: string;

  constructor(prefix: string, numClasses: number, numSlots: number, out: number, device: Device) {
    this.#entries = keep(zeros([numClasses, numSlots, out], { device }));
    this.#filled = keep(zeros([numClasses, numSlots], { device }));
    this.#prefix = prefix;
  }

  buffers(): NamedTensors {
    return new Map([
      [`${this.#prefix}entries`, this.#entries],
      [`${this.#prefix}filled`, this.#filled],
    ]);
  }

  /** All entries [class * slot, out] and their classes; the class of an empty slot is -1. */
  contents(): { entries: Tensor; classes: Tensor } {
    const [numClasses, numSlots, out] = this.#entries.shape as [number, number, number];
    const classes = arange(numClasses, this.#entries.device).add(1).unsqueeze(1).mul(this.#filled).sub(1);
    return {
      entries: this.#entries.reshape(numClasses * numSlots, out),
      classes: classes.reshape(numClasses * numSlots),
    };
  }

  /** Adds projections [batch, out] to the queues of their classes. The oldest are dropped. */
  push(projections: Tensor, classes: Tensor): void {
    scope(() => {
      const [numClasses, numSlots, out] = this.#entries.shape as [number, number, number];
      const batchSize = projections.size(0);
      const { device } = this.#entries;
      const isNew = classes.unsqueeze(0).eq(arange(numClasses, device).unsqueeze(1)).to("float32"); // [class, batch]
      const all = cat([this.#entries, projections.unsqueeze(0).expand(numClasses, batchSize, out)], 1);
      const isUsed = cat([this.#filled, isNew], 1); // [class, slot + batch]
      // Sort used entries after unused ones, both by age, and keep the last ones.
      const rank = isUsed.mul(numSlots + batchSize).add(arange(numSlots + batchSize, device));
      const [, order] = sort(rank, 1, false);
      const kept = order.narrow(1, batchSize, numSlots);
      this.#entries.copy_(all.gather(1, kept.unsqueeze(2).expand(numClasses, numSlots, out)));
      this.#filled.copy_(isUsed.gather(1, kept));
    });
  }
}
