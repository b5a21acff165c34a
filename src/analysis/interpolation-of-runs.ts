import { free } from "../tensor/index.js";
import { createAlphas, type InterpolationData, measureInterpolation } from "./interpolation.js";
import { type AnalyzedRun, loadFineTunedModel } from "./load-runs.js";
import { loadSharedSample, type SharedSampleOptions, withModel } from "./shared-sample.js";
import type { Analysis } from "./write-analysis.js";

export interface InterpolationOptions extends SharedSampleOptions {
  readonly from: number;
  readonly to: number;
  readonly points: number;
  readonly onPoint?: (done: number) => void;
}

/** The loss on the line through the models of two runs (ROSE eq. 7, fig. 4). */
export async function analyzeInterpolation(
  first: AnalyzedRun,
  second: AnalyzedRun,
  options: InterpolationOptions,
): Promise<Analysis<InterpolationData>> {
  const alphas = createAlphas(options.from, options.to, options.points);
  const comparison = await loadSharedSample([first, second], options);
  const { task, split, examples, device } = comparison;
  const other = await loadFineTunedModel(second, device);
  try {
    return await withModel(
      comparison,
      () => loadFineTunedModel(first, device),
      (model, batch) =>
        measureInterpolation({
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
