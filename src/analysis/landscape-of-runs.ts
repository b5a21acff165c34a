import { join } from "node:path";
import { hashModelFolder, type Model } from "../models/index.js";
import { hashExamples } from "../runs/environment.js";
import { type ComparisonOptions, openComparison, withModel } from "./comparison.js";
import { axisOf, type LandscapeData, type LandscapeModel, landscapeAnalysis, measureLandscape } from "./landscape.js";
import { openLedger } from "./ledger.js";
import { type AnalysedRun, loadFinal, loadStart } from "./runs.js";
import type { Analysis } from "./write.js";

export interface LandscapeOptions extends ComparisonOptions {
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
export async function analyseLandscape(runs: readonly AnalysedRun[], options: LandscapeOptions): Promise<Analysis<LandscapeData>> {
  const { seed, range, points, device, onPoint } = options;
  const axis = axisOf(range, points);
  const comparison = await openComparison(runs, options);
  const { task, split, examples } = comparison;
  const ledger = openLedger<number>(join(options.out, "landscape.points.jsonl"));
  const setting = `seed ${seed} examples ${hashExamples(examples)}`;
  const sources: { label: string; load(): Promise<Model> }[] = runs.map((run) => ({
    label: run.label,
    load: () => loadFinal(run, device),
  }));
  if (options.pretrained) sources.unshift({ label: "pre-trained", load: () => loadStart(runs[0]!, task.labels, device) });
  const total = sources.length * points * points;
  let done = 0;
  const models: LandscapeModel[] = [];
  try {
    for (const { label, load } of sources) {
      const measured = await withModel(comparison, load, async (model, batch) =>
        measureLandscape({
          label,
          // A new head is drawn by the run's seed; how texts are read may be a run's choice too.
          identity: [
            await hashModelFolder(model.folder),
            model.fresh.length > 0 ? runs[0]!.config.seed : "",
            model.encoding,
            model.maxLength,
            setting,
          ].join(" "),
          weights: model.weights,
          loss: (weights) => batch.measure(weights).loss,
          seed,
          axis,
          ledger,
          onPoint: () => onPoint?.(++done, total),
        }),
      );
      models.push(measured);
    }
  } finally {
    ledger.close();
  }
  return landscapeAnalysis({ task: task.name, split, examples: examples.length, seed, axis, models });
}
