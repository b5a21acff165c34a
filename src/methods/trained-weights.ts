import { isHeadParameter, type Model } from "../models/index.js";

export function listFrozenWeights(
  { weights, newlyInitialized }: Pick<Model, "weights" | "newlyInitialized">,
  isTrained: (name: string) => boolean,
): ReadonlySet<string> {
  return new Set(
    [...weights.keys()].filter(
      (name) => !isHeadParameter(name) && !newlyInitialized.includes(name) && !isTrained(name),
    ),
  );
}
