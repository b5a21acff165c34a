import { isHeadParameter, type Model } from "../models/index.js";

/** The parameters that came from pre-training: all but the head and what was drawn anew. */
export function getPretrainedParameterNames(model: Pick<Model, "weights" | "newlyInitialized">): string[] {
  return [...model.weights.keys()].filter((name) => !isHeadParameter(name) && !model.newlyInitialized.includes(name));
}
