import { free } from "../tensor/index.js";
import { type ComparisonOptions, openComparison, withModel } from "./comparison.js";
import { analyseInterpolation, type InterpolationData, lineOf } from "./interpolation.js";
import { type AnalysedRun, loadFinal } from "./runs.js";
import type { Analysis } from "./write.js";

export interface LineOptions extends ComparisonOptions {
  readonly from: number;
  readonly to: number;
  readonly points: number;
  readonly onPoint?: (done: number) => void;
}

/** The loss on the line through the models of two runs (ROSE eq. 7, fig. 4). */
export async function analyseLine(first: AnalysedRun, second: AnalysedRun, options: LineOptions): Promise<Analysis<InterpolationData>> {
  const alphas = lineOf(options.from, options.to, options.points);
  const comparison = await openComparison([first, second], options);
  const { task, split, examples, device } = comparison;
  const other = await loadFinal(second, device);
  try {
    return await withModel(
      comparison,
      () => loadFinal(first, device),
      (model, batch) =>
        analyseInterpolation({
          from: { label: first.label, weights: model.weights },
          to: { label: second.label, weights: other.weights },
          facts: { task: task.name, split, examples: examples.length },
          alphas,
          measure: batch.measure,
          ...(options.onPoint ? { onPoint: options.onPoint } : {}),
        }),
    );
  } finally {
    free(other.weights);
  }
}
