import { UserError } from "../errors.js";
import { type ComparisonOptions, openComparison, withModel } from "./comparison.js";
import { type GeometryData, type GeometryModel, geometryAnalysis, measureGeometry } from "./geometry.js";
import { type AnalysedRun, loadFinal, loadStart } from "./runs.js";
import type { TsneOptions } from "./tsne.js";
import type { Analysis } from "./write.js";

export interface GeometryOptions extends ComparisonOptions, TsneOptions {
  readonly onModel?: (done: number, total: number) => void;
}

/** The features of runs' models beside those of the model they began as (RIFT fig. 3). */
export async function analyseGeometry(runs: readonly AnalysedRun[], options: GeometryOptions): Promise<Analysis<GeometryData>> {
  const { device, seed, onModel } = options;
  const comparison = await openComparison(runs, options);
  const { task, split, examples } = comparison;
  const classes = examples.map(({ label }) => label);
  if (new Set(classes).size === classes.length)
    throw new UserError(
      `--examples ${options.examples}: expected two examples of one class at least, received ${classes.length} of ${task.name}, ` +
        "each of another class or none at all; give more --examples, or another --split",
    );
  const featuresOf = (load: () => ReturnType<typeof loadFinal>): Promise<Float32Array[]> =>
    withModel(comparison, load, (model, batch) => batch.features(model.weights));
  const models: GeometryModel[] = [];
  const add = async (model: GeometryModel): Promise<void> => {
    models.push(model);
    onModel?.(models.length, runs.length + 1);
    await new Promise(setImmediate);
  };
  const before = await featuresOf(() => loadStart(runs[0]!, task.labels, device));
  await add(measureGeometry("before fine-tuning", before, null, classes, seed, options));
  for (const run of runs) {
    const teacher = sameStart(run, runs[0]!) ? before : await featuresOf(() => loadStart(run, task.labels, device));
    await add(measureGeometry(run.label, await featuresOf(() => loadFinal(run, device)), teacher, classes, seed, options));
  }
  return geometryAnalysis({ task: task.name, split, labels: [...task.labels], classes, models });
}

/** Whether two runs began as models with the same features. */
function sameStart(a: AnalysedRun, b: AnalysedRun): boolean {
  const keys = ["model", "feature", "encoding", "maxLength"] as const;
  return keys.every((key) => a.config[key] === b.config[key]);
}
