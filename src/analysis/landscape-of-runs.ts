import { join } from "node:path";
import { hashModelFolder, type Model } from "../models/index.js";
import { hashExamples } from "../runs/environment.js";
import {
  createAxis,
  createLandscapeAnalysis,
  type LandscapeData,
  type LandscapeModel,
  measureLandscape,
} from "./landscape.js";
import { type AnalyzedRun, loadFineTunedModel, loadInitialModel } from "./load-runs.js";
import { openResultCache } from "./result-cache.js";
import { loadSharedSample, type SharedSampleOptions, withModel } from "./shared-sample.js";
import type { Analysis } from "./write-analysis.js";

export interface LandscapeOptions extends SharedSampleOptions {
  readonly range: number;
  /** Points an axis, an odd number. */
  readonly points: number;
  /** The weights before fine-tuning too, with the first run's new head. */
  readonly pretrained: boolean;
  /** Where finished points are kept, so that a stopped analysis goes on. */
  readonly out: string;
  readonly onPoint?: (done: number, total: number) => void;
}

/** The loss around the models of runs, all on the same batch and along the same directions. */
export async function analyzeLandscape(
  runs: readonly AnalyzedRun[],
  options: LandscapeOptions,
): Promise<Analysis<LandscapeData>> {
  const { seed, range, points, device, onPoint } = options;
  const axis = createAxis(range, points);
  const comparison = await loadSharedSample(runs, options);
  const { task, split, examples } = comparison;
  const cache = openResultCache<number>(join(options.out, "landscape.points.jsonl"));
  const setting = `seed ${seed} examples ${hashExamples(examples)}`;
  const sources: { label: string; load(): Promise<Model> }[] = runs.map((run) => ({
    label: run.label,
    load: () => loadFineTunedModel(run, device),
  }));
  if (options.pretrained)
    sources.unshift({ label: "pre-trained", load: () => loadInitialModel(runs[0]!, task.labels, device) });
  const total = sources.length * points * points;
  let done = 0;
  const models: LandscapeModel[] = [];
  try {
    for (const { label, load } of sources) {
      const measured = await withModel(comparison, load, async (model, batch) =>
        measureLandscape({
          label,
          // A new head is drawn by the run's seed; how texts are read may be a run's choice too.
          cacheKey: [
            await hashModelFolder(model.folder),
            model.newlyInitialized.length > 0 ? runs[0]!.config.seed : "",
            model.tokenization,
            model.maxLength,
            setting,
          ].join(" "),
          weights: model.weights,
          loss: (weights) => batch.measure(weights).loss,
          seed,
          axis,
          cache: cache,
          onPoint: () => onPoint?.(++done, total),
        }),
      );
      models.push(measured);
    }
  } finally {
    cache.close();
  }
  return createLandscapeAnalysis({ task: task.name, split, examples: examples.length, seed, axis, models });
}
