import type { DropoutSeeds } from "./dropout-seeds.js";

/** True if a forward pass is in training mode, with dropout. */
export interface ForwardMode {
  readonly training: boolean;
  /** The seeds of the next dropout masks on a GPU, if they are drawn already. */
  readonly seeds?: DropoutSeeds;
}
