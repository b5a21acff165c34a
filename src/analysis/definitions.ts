import { ablation } from "./ablation.js";
import { consistency } from "./consistency.js";
import type { AnalysisDefinition } from "./define-analysis.js";
import { distance } from "./distance.js";
import { geometry } from "./geometry.js";
import { interpolation } from "./interpolation.js";
import { landscape } from "./landscape.js";
import { preference } from "./preference.js";
import { probe } from "./probe.js";
import { teacher } from "./teacher.js";
import { tradeoff } from "./tradeoff.js";

export const definitions = {
  distance,
  tradeoff,
  ablation,
  geometry,
  landscape,
  interpolation,
  probe,
  preference,
  consistency,
  teacher,
};
export type AnalysisName = keyof typeof definitions;

export const analyses: ReadonlyMap<string, AnalysisDefinition> = new Map(Object.entries(definitions));
