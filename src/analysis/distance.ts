import { z } from "zod";
import { formatPercent } from "../base/format.js";
import { groupBy } from "../base/group-by.js";
import type { Model } from "../models/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import { type Device, free } from "../tensor/index.js";
import { CheckpointStore } from "../train/checkpoint.js";
import { computeRelativeDistances, type Distances } from "../train/weight-distance.js";
import { assignColors } from "./colors.js";
import {
  applyFloat32Runtime,
  defineAnalysis,
  deviceOptions,
  findLabeledRuns,
  type LabeledRun,
  runsOption,
} from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { loadPlot } from "./load-plot.js";
import { getOption, labelGroups } from "./run-labels.js";
import { type BandPoint, joinSeeds } from "./seed-bands.js";
import { freeAfter, loadFineTunedModel, loadInitialModel } from "./shared-sample.js";

const distancesSchema = z.record(z.string(), z.number());
const pointSchema = z.object({ step: z.number(), distance: distancesSchema });

/** distance.json: relative L2 distances of the encoder and its parts from the initial weights. */
const dataSchema = z.object({
  /** The option that the last distance is plotted against. */
  by: z.string(),
  runs: z.array(
    z.object({
      label: z.string(),
      /** Equal for runs that differ only in their seed. */
      group: z.string().default(""),
      method: z.string().default(""),
      folder: z.string(),
      option: z.union([z.number(), z.string()]).nullable(),
      /** During training, starting with 0 at step 0. */
      curve: z.array(pointSchema),
      last: pointSchema,
      /** The step of the model that was kept, and its distances. */
      bestStep: z.number(),
      final: distancesSchema,
    }),
  ),
});
type DistanceData = z.output<typeof dataSchema>;

export const distance = defineAnalysis({
  name: "distance",
  summary: "distance of the weights from the pre-trained weights during training (RIFT fig. 2)",
  unit: "runs",
  options: {
    runs: runsOption("finished runs, or folders of them"),
    by: z.string().default("beta").describe("option on the x axis of the last panel, if the runs differ in it"),
    ...deviceOptions,
  },
  data: dataSchema,
  async run(request, { advance }) {
    const runs = await findLabeledRuns(request.runs);
    const { device } = applyFloat32Runtime(request);
    const measured: DistanceData["runs"] = [];
    const groups = labelGroups(runs.map(({ run }) => run));
    for (const [i, each] of runs.entries()) {
      const { label, run } = each;
      measured.push({
        label,
        group: groups[i]!,
        method: run.method,
        folder: run.folder,
        option: getOption(run, request.by),
        ...(await measureDistances(each, device)),
      });
      await advance(measured.length, runs.length);
    }
    const data = { by: request.by, runs: measured };
    return { data, summary: summarizeDistance(data), figure: await createDistanceFigure(data) };
  },
});

async function measureDistances(
  { run, results: { bestStep } }: LabeledRun,
  device: Device,
): Promise<Pick<DistanceData["runs"][number], "curve" | "last" | "bestStep" | "final">> {
  return freeAfter(await loadFineTunedModel(run, device), async (model) =>
    freeAfter(await loadInitialModel(run, model.labels, device), async (initial) => {
      const final = computeRelativeDistances(model.weights, initial.weights);
      const zero = Object.fromEntries(Object.keys(final).map((part) => [part, 0]));
      const logged = (await run.events()).flatMap(({ step, distance: logged }) =>
        logged ? [{ step, distance: logged as Distances }] : [],
      );
      const points = logged.length > 0 ? logged : await measureCheckpoints(run, initial);
      return {
        curve: [{ step: 0, distance: zero }, ...points],
        last: points.at(-1) ?? { step: bestStep, distance: final },
        bestStep,
        final,
      };
    }),
  );
}

async function measureCheckpoints(run: RunFolder, initial: Model): Promise<{ step: number; distance: Distances }[]> {
  const checkpoints = new CheckpointStore(run.path("checkpoints"));
  const points: { step: number; distance: Distances }[] = [];
  for (const step of await checkpoints.listSteps()) {
    const weights = await checkpoints.readTensors(step, "weights");
    points.push({ step, distance: computeRelativeDistances(weights, initial.weights) });
    free(weights);
  }
  return points;
}

function summarizeDistance({ runs }: DistanceData): string {
  const each = runs.map(({ label, last }) => {
    const parts = Object.entries(last.distance).filter(([part]) => part !== "all");
    const values = parts.map(([, value]) => value);
    const range = `${formatPercent(Math.min(...values), 2)} to ${formatPercent(Math.max(...values), 2)}`;
    return `${label} ${formatPercent(last.distance.all!, 2)} (${range} by layer)`;
  });
  const lead = "Relative distance from the pre-trained weights at the last step";
  return `${lead}: ${each.join(", ")}. Each is one run; another seed may give another distance.`;
}

async function createDistanceFigure({ by, runs }: DistanceData): Promise<Figure> {
  const { Plot, plotPanel } = await loadPlot();
  const percent = (value: number): number => 100 * value;
  const y = { label: "relative L2 distance (%)", grid: true, zero: true, nice: true, ticks: 5 };
  const groups = [...groupBy(runs, ({ group }) => group)].map(([label, seeds]) => ({ label, seeds }));
  const colors = assignColors(groups.map(({ label, seeds }) => ({ label, method: seeds[0]!.method })));
  const colorOf = new Map(groups.map(({ label }, i) => [label, colors[i]!]));
  const join = (read: (run: DistanceData["runs"][number]) => { x: number; y: number }[]): GroupPoint[] =>
    groups.flatMap(({ label, seeds }, i) =>
      joinSeeds(seeds.map(read)).map((point) => ({ ...point, label, color: colors[i]! })),
    );
  const curves = join(({ curve }) => curve.map(({ step, distance }) => ({ x: step, y: percent(distance.all!) })));
  const kept = runs.map(({ final, bestStep: x, group }) => ({ x, y: percent(final.all!), color: colorOf.get(group)! }));
  const parts = Object.keys(runs[0]?.final ?? {}).filter((part) => part !== "all");
  const names = parts.map((part) => part.replace("embeddings", "emb").replace("layer ", ""));
  const layers = join(({ final }) => parts.map((part, at) => ({ x: at, y: percent(final[part] ?? 0) })));
  const drawLines = (points: readonly GroupPoint[], r: number) => [
    Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill: "color", z: "label", fillOpacity: 0.18 }),
    Plot.line(points, { x: "x", y: "y", stroke: "color", z: "label", strokeWidth: 2 }),
    Plot.dot(points, { x: "x", y: "y", fill: "color", r }),
  ];
  const panels = [
    plotPanel("over training", {
      x: { label: "step", ticks: 5 },
      y,
      marks: [...drawLines(curves, 2), Plot.dot(kept, { x: "x", y: "y", stroke: "color", r: 5, strokeWidth: 1.5 })],
    }),
    plotPanel("by layer, of the kept model", {
      x: { label: "layer", ticks: parts.map((_, at) => at), tickFormat: (at: number) => names[at] ?? "", inset: 8 },
      y,
      marks: drawLines(layers, 3),
    }),
  ];
  const withOption = runs.flatMap(({ last, option, group }) =>
    option === null ? [] : [{ option, value: percent(last.distance.all!), color: colorOf.get(group)! }],
  );
  if (new Set(withOption.map(({ option }) => option)).size > 1) {
    const isNumeric = withOption.every(({ option }) => typeof option === "number");
    panels.push(
      plotPanel(`against ${by}, at the last step`, {
        x: isNumeric ? { label: by, type: "linear", inset: 10 } : { label: by, type: "point" },
        y,
        marks: [Plot.dot(withOption, { x: "option", y: "value", fill: "color", r: 4.5 })],
      }),
    );
  }
  return {
    title: "Distance from the pre-trained weights",
    caption:
      "Relative L2 distance of the encoder's weights from those before fine-tuning. " +
      `A ring marks the model that was kept.${
        groups.some(({ seeds }) => seeds.length > 1)
          ? " Lines are means over seeds; bands reach from the lowest to the highest."
          : ""
      }`,
    legend: groups.map(({ label, seeds }, i) => ({
      label: seeds.length > 1 ? `${label}, ${seeds.length} seeds` : label,
      color: colors[i]!,
      shape: "line",
    })),
    panels,
    columns: 3,
  };
}

interface GroupPoint extends BandPoint {
  readonly label: string;
  readonly color: string;
}
