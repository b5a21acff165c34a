import { join } from "node:path";
import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { formatPercent } from "../format.js";
import { readEvents } from "../runs/read-events.js";
import { runFiles } from "../runs/run-folder.js";
import { type Device, free } from "../tensor/index.js";
import { CheckpointStore } from "../train/checkpoint.js";
import { computeRelativeDistances, type Distances } from "../train/weight-distance.js";
import { getColor } from "./colors.js";
import { type Figure, plotPanel } from "./figure.js";
import { type AnalyzedRun, getOption, loadFineTunedModel, loadInitialModel } from "./load-runs.js";
import type { Analysis } from "./write-analysis.js";

const distancesSchema = z.record(z.string(), z.number());

/** distance.json: relative L2 distances to the weights before fine-tuning, of the encoder (`all`) and its parts. */
export const distanceSchema = z.object({
  /** The option that the end is plotted against. */
  by: z.string(),
  runs: z.array(
    z.object({
      label: z.string(),
      folder: z.string(),
      option: z.union([z.number(), z.string()]).nullable(),
      /** Over training, as far as the run kept it; from 0 at step 0. */
      curve: z.array(z.object({ step: z.number(), distance: distancesSchema })),
      /** At the last step that is known. */
      last: z.object({ step: z.number(), distance: distancesSchema }),
      /** Of the model that was kept, and the step it is from. */
      chosenStep: z.number(),
      final: distancesSchema,
    }),
  ),
});
export type DistanceData = z.output<typeof distanceSchema>;

/** How far runs moved from the pre-trained weights (RIFT fig. 2). */
export async function analyzeDistance(
  runs: readonly AnalyzedRun[],
  by: string,
  device: Device,
  onRun?: (done: number) => void,
): Promise<Analysis<DistanceData>> {
  const measured: DistanceData["runs"] = [];
  for (const run of runs) {
    measured.push({
      label: run.label,
      folder: run.folder,
      option: getOption(run, by),
      ...(await measureDistances(run, device)),
    });
    onRun?.(measured.length);
  }
  const data = { by, runs: measured };
  return {
    name: "distance",
    schema: distanceSchema,
    data,
    meaning: summarizeDistance(data),
    figure: createDistanceFigure(data),
  };
}

async function measureDistances(
  run: AnalyzedRun,
  device: Device,
): Promise<Pick<DistanceData["runs"][number], "curve" | "last" | "chosenStep" | "final">> {
  const model = await loadFineTunedModel(run, device);
  try {
    const start = await loadInitialModel(run, model.labels, device);
    try {
      const final = computeRelativeDistances(model.weights, start.weights);
      const zero = Object.fromEntries(Object.keys(final).map((part) => [part, 0]));
      const logged = (await readEvents(run.folder)).flatMap(({ step, distance }) =>
        distance ? [{ step, distance: distance as Distances }] : [],
      );
      const kept =
        logged.length > 0
          ? logged
          : await measureCheckpoints(run.folder, (weights) => computeRelativeDistances(weights, start.weights));
      const { bestStep: chosenStep } = run.results;
      return {
        curve: [{ step: 0, distance: zero }, ...kept],
        last: kept.at(-1) ?? { step: chosenStep, distance: final },
        chosenStep,
        final,
      };
    } finally {
      free(start.weights);
    }
  } finally {
    free(model.weights);
  }
}

/** For runs whose events do not tell. */
async function measureCheckpoints(
  folder: string,
  measure: (weights: Awaited<ReturnType<CheckpointStore["readTensors"]>>) => Distances,
): Promise<{ step: number; distance: Distances }[]> {
  const checkpoints = new CheckpointStore(join(folder, runFiles.checkpoints));
  const found: { step: number; distance: Distances }[] = [];
  for (const step of await checkpoints.listSteps()) {
    const weights = await checkpoints.readTensors(step, "weights");
    found.push({ step, distance: measure(weights) });
    free(weights);
  }
  return found;
}

function summarizeDistance({ runs }: DistanceData): string {
  const sorted = [...runs].sort((a, b) => b.last.distance.all! - a.last.distance.all!);
  const each = sorted.map(({ label, last }) => {
    const parts = Object.entries(last.distance).filter(([part]) => part !== "all");
    const [most] = parts.reduce((a, b) => (b[1] > a[1] ? b : a));
    return `${label} ${formatPercent(last.distance.all!, 2)} (${most} most)`;
  });
  return `Relative distance from the pre-trained weights at the last step: ${each.join(", ")}; the farther, the more is forgotten.`;
}

function createDistanceFigure({ by, runs }: DistanceData): Figure {
  const percent = (value: number): number => 100 * value;
  const y = { label: "relative L2 distance (%)", grid: true, zero: true, nice: true, ticks: 5 };
  const curves = runs.flatMap(({ curve, label }, i) =>
    curve.map(({ step, distance }) => ({ step, value: percent(distance.all!), label, color: getColor(i) })),
  );
  const kept = runs.map(({ final, chosenStep }, i) => ({
    step: chosenStep,
    value: percent(final.all!),
    color: getColor(i),
  }));
  const parts = Object.keys(runs[0]?.final ?? {}).filter((part) => part !== "all");
  const names = parts.map((part) => part.replace("embeddings", "emb").replace("layer ", ""));
  const layers = runs.flatMap(({ last, label }, i) =>
    parts.map((part, at) => ({ part: names[at], value: percent(last.distance[part] ?? 0), label, color: getColor(i) })),
  );
  const lines = { stroke: "color", z: "label", strokeWidth: 2 };
  const panels = [
    plotPanel("over training", {
      x: { label: "step", ticks: 5 },
      y,
      marks: [
        Plot.line(curves, { x: "step", y: "value", ...lines }),
        Plot.dot(curves, { x: "step", y: "value", fill: "color", r: 2 }),
        Plot.dot(kept, { x: "step", y: "value", stroke: "color", r: 5, strokeWidth: 1.5 }),
      ],
    }),
    plotPanel("by layer, at the last step", {
      x: { label: "layer", type: "point", domain: names },
      y,
      marks: [
        Plot.line(layers, { x: "part", y: "value", ...lines }),
        Plot.dot(layers, { x: "part", y: "value", fill: "color", r: 3 }),
      ],
    }),
  ];
  const told = runs.flatMap(({ last, option }, i) =>
    option === null ? [] : [{ option, value: percent(last.distance.all!), color: getColor(i) }],
  );
  if (new Set(told.map(({ option }) => option)).size > 1) {
    const numeric = told.every(({ option }) => typeof option === "number");
    panels.push(
      plotPanel(`against ${by}, at the last step`, {
        x: numeric ? { label: by, type: "linear", inset: 10 } : { label: by, type: "point" },
        y,
        marks: [Plot.dot(told, { x: "option", y: "value", fill: "color", r: 4.5 })],
      }),
    );
  }
  return {
    title: "Distance from the pre-trained weights",
    caption:
      "Relative L2 distance of the encoder's weights to those before fine-tuning. A ring marks the model that was kept.",
    legend: runs.map(({ label }, i) => ({ label, color: getColor(i), shape: "line" })),
    panels,
    columns: 3,
  };
}
