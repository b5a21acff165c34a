import { arange, cat, type Device, keep, scope, sort, type Tensor, zeros } from "../../tensor/index.js";
import type { NamedTensors } from "../../train/index.js";

/**
 * The last teachers' projections of each class, as further negatives. It is filled from its end; shapes never change, so that a
 * step with it can be captured.
 */
export class MemoryQueue {
  readonly #entries: Tensor; // [class, place, out]
  readonly #filled: Tensor; // [class, place]: 1 where there is an entry
  readonly #names: readonly [string, string];

  constructor(prefix: string, classes: number, places: number, out: number, device: Device) {
    this.#entries = keep(zeros([classes, places, out], { device }));
    this.#filled = keep(zeros([classes, places], { device }));
    this.#names = [`${prefix}entries`, `${prefix}filled`];
  }

  buffers(): NamedTensors {
    return new Map([
      [this.#names[0], this.#entries],
      [this.#names[1], this.#filled],
    ]);
  }

  /** All places one after the other, and the class of each; -1 where it is empty. */
  contents(): { entries: Tensor; classes: Tensor } {
    const [count, places, out] = this.#entries.shape as [number, number, number];
    const classes = arange(count, this.#entries.device).add(1).unsqueeze(1).mul(this.#filled).sub(1);
    return { entries: this.#entries.reshape(count * places, out), classes: classes.reshape(count * places) };
  }

  /** Adds projections [batch, out] to their classes' places [batch]; the oldest go. */
  push(projections: Tensor, classes: Tensor): void {
    scope(() => {
      const [count, places, out] = this.#entries.shape as [number, number, number];
      const rows = projections.size(0);
      const { device } = this.#entries;
      const arriving = classes.unsqueeze(0).eq(arange(count, device).unsqueeze(1)).to("float32"); // [class, batch]
      const all = cat([this.#entries, projections.unsqueeze(0).expand(count, rows, out)], 1);
      const used = cat([this.#filled, arriving], 1); // [class, place and batch]
      // What is used goes behind what is not, each in order of age; the last places are kept.
      const [, order] = sort(used.mul(places + rows).add(arange(places + rows, device)), 1, false);
      const kept = order.narrow(1, rows, places);
      this.#entries.copy_(all.gather(1, kept.unsqueeze(2).expand(count, places, out)));
      this.#filled.copy_(used.gather(1, kept));
    });
  }
}
