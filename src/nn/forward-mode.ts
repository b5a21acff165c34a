import type { BatchRows } from "../tensor/index.js";
import type { DropoutSeeds } from "./dropout-seeds.js";

/** Whether a forward pass is in training mode, with dropout. */
export interface ForwardMode {
  readonly training: boolean;
  /** The part of a larger batch that this is. On a CPU, dropout masks it as that part. */
  readonly rows?: BatchRows;
  /** The seeds of the next dropout masks on a GPU, if they are drawn already. */
  readonly seeds?: DropoutSeeds;
}
