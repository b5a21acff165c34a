import type { DropoutSeeds } from "./dropout-seeds.js";

/** True if a forward pass is in training mode, with dropout. */
export interface ForwardMode {
  readonly training: boolean;
  readonly seeds?: DropoutSeeds;
}
