import { type Device, empty, operator, type Tensor } from "../tensor/index.js";

export const randomOp = operator<(self: Tensor) => void>("random_");

/** Seeds of several dropout masks on a GPU: one kernel draws them all. */
export class DropoutSeeds {
  readonly #seeds: Tensor;
  #next = 0;

  constructor(device: Device, count: number) {
    this.#seeds = empty([count], { dtype: "int64", device });
    randomOp(this.#seeds);
  }

  take(): Tensor | null {
    return this.#next < this.#seeds.size(0) ? this.#seeds.narrow(0, this.#next++, 1) : null;
  }
}

/** True if a forward pass is in training mode, with dropout. */
export interface ForwardMode {
  readonly training: boolean;
  readonly seeds?: DropoutSeeds;
}
