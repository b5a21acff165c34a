import type { z } from "zod";
import { ablation } from "./ablation.js";
import { consistency } from "./consistency.js";
import type { AnalysisDefinition } from "./define-analysis.js";
import { distance } from "./distance.js";
import { geometry } from "./geometry.js";
import { interpolation } from "./interpolation.js";
import { landscape } from "./landscape.js";
import { preference } from "./preference.js";
import { tradeoff } from "./tradeoff.js";

export const definitions = {
  distance,
  tradeoff,
  ablation,
  geometry,
  landscape,
  interpolation,
  preference,
  consistency,
};
export type AnalysisName = keyof typeof definitions;

export const analyses = new Map(Object.entries(definitions)) as ReadonlyMap<
  string,
  AnalysisDefinition<string, z.ZodObject>
>;
