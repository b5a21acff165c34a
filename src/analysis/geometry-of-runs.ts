import { UserError } from "../errors.js";
import { createGeometryAnalysis, type GeometryData, type GeometryModel, measureGeometry } from "./geometry.js";
import { type AnalyzedRun, loadFineTunedModel, loadInitialModel } from "./load-runs.js";
import { loadSharedSample, type SharedSampleOptions, withModel } from "./shared-sample.js";
import type { TsneOptions } from "./tsne.js";
import type { Analysis } from "./write-analysis.js";

export interface GeometryOptions extends SharedSampleOptions, TsneOptions {
  readonly onModel?: (done: number, total: number) => void;
}

/** The features of runs' models beside those of the model they began as (RIFT fig. 3). */
export async function analyzeGeometry(
  runs: readonly AnalyzedRun[],
  options: GeometryOptions,
): Promise<Analysis<GeometryData>> {
  const { device, seed, onModel } = options;
  const comparison = await loadSharedSample(runs, options);
  const { task, split, examples } = comparison;
  const classes = examples.map(({ label }) => label);
  if (new Set(classes).size === classes.length)
    throw new UserError(
      `--num-examples ${options.examples}: expected two examples of one class at least, received ${classes.length} of ${task.name}, ` +
        "each of another class or none at all; give more --num-examples, or another --split",
    );
  const loadFeatures = (load: () => ReturnType<typeof loadFineTunedModel>): Promise<Float32Array[]> =>
    withModel(comparison, load, (model, batch) => batch.features(model.weights));
  const models: GeometryModel[] = [];
  const add = async (model: GeometryModel): Promise<void> => {
    models.push(model);
    onModel?.(models.length, runs.length + 1);
    await new Promise(setImmediate);
  };
  const before = await loadFeatures(() => loadInitialModel(runs[0]!, task.labels, device));
  await add(measureGeometry("before fine-tuning", before, null, classes, seed, options));
  for (const run of runs) {
    const teacher = hasSameStart(run, runs[0]!)
      ? before
      : await loadFeatures(() => loadInitialModel(run, task.labels, device));
    await add(
      measureGeometry(
        run.label,
        await loadFeatures(() => loadFineTunedModel(run, device)),
        teacher,
        classes,
        seed,
        options,
      ),
    );
  }
  return createGeometryAnalysis({ task: task.name, split, labels: [...task.labels], classes, models });
}

/** Whether two runs began as models with the same features. */
function hasSameStart(a: AnalyzedRun, b: AnalyzedRun): boolean {
  const keys = ["model", "pooling", "tokenization", "maxLength"] as const;
  return keys.every((key) => a.config[key] === b.config[key]);
}
