import { isHead, type Model } from "../models/index.js";

/** The parameters that came from pre-training: all but the head and what was drawn anew. */
export function encoderNames(model: Pick<Model, "weights" | "fresh">): string[] {
  return [...model.weights.keys()].filter((name) => !isHead(name) && !model.fresh.includes(name));
}
