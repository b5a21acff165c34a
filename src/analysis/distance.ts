import { z } from "zod";
import { formatPercent } from "../base/format.js";
import { groupBy } from "../base/group-by.js";
import type { Device } from "../tensor/index.js";
import { computeRelativeDistances } from "../train/index.js";
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
import type { Point } from "./plot-panel.js";
import { getOption, labelGroups } from "./run-labels.js";
import { freeAfter, loadFineTunedModel, loadInitialModel } from "./shared-sample.js";

const distancesSchema = z.record(z.string(), z.number());
const pointSchema = z.object({ step: z.number(), distance: distancesSchema });

/** distance.json: relative L2 distances of the encoder and its parts from the initial weights. */
const dataSchema = z.object({
  by: z.string(),
  runs: z.array(
    z.object({
      label: z.string(),
      /** Equal for runs that differ only in their seed. */
      group: z.string(),
      method: z.string(),
      folder: z.string(),
      option: z.union([z.number(), z.string()]).nullable(),
      /** At each evaluation, starting with 0 at step 0. */
      curve: z.array(pointSchema),
      last: pointSchema,
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
      const points = (await run.events()).flatMap(({ step, distance: logged }) =>
        logged ? [{ step, distance: logged as Record<string, number> }] : [],
      );
      return {
        curve: [{ step: 0, distance: zero }, ...points],
        last: points.at(-1) ?? { step: bestStep, distance: final },
        bestStep,
        final,
      };
    }),
  );
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

/** Measurements that a line needs. Fewer would claim a course that nobody measured. */
const minPointsOfLine = 4;

async function createDistanceFigure({ by, runs }: DistanceData): Promise<Figure> {
  const { Plot, plotPanel, drawLine, joinSeeds } = await import("./plot-panel.js");
  const percent = (value: number): number => 100 * value;
  const y = { label: "relative L2 distance (%)", grid: true, zero: true, nice: true, ticks: 5 };
  const groups = [...groupBy(runs, ({ group }) => group)].map(([label, seeds]) => ({ label, seeds }));
  const colors = assignColors(groups.map(({ label, seeds }) => ({ label, method: seeds[0]!.method })));
  const colorOf = new Map(groups.map(({ label }, i) => [label, colors[i]!]));
  const drawGroups = (read: (run: DistanceData["runs"][number]) => readonly Point[], minPoints: number) =>
    groups.map(({ seeds }, i) => {
      const points = joinSeeds(seeds.map(read));
      return drawLine(points, { color: colors[i]!, r: 3, isConnected: points.length >= minPoints });
    });
  const kept = runs.map(({ final, bestStep: x, group }) => ({ x, y: percent(final.all!), color: colorOf.get(group)! }));
  const parts = Object.keys(runs[0]?.final ?? {}).filter((part) => part !== "all");
  const names = parts.map((part) => part.replace("embeddings", "emb").replace("layer ", ""));
  const panels = [
    plotPanel("at each evaluation", {
      x: { label: "step", ticks: 5 },
      y,
      marks: [
        ...drawGroups(
          ({ curve }) => curve.map(({ step: x, distance }) => ({ x, y: percent(distance.all!) })),
          minPointsOfLine,
        ),
        Plot.dot(kept, { x: "x", y: "y", stroke: "color", r: 5, strokeWidth: 1.5 }),
      ],
    }),
    plotPanel("by layer, of the kept model", {
      x: { label: "layer", ticks: parts.map((_, at) => at), tickFormat: (at: number) => names[at] ?? "", inset: 8 },
      y,
      marks: drawGroups(({ final }) => parts.map((part, x) => ({ x, y: percent(final[part] ?? 0) })), 2),
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
  const hasSeeds = groups.some(({ seeds }) => seeds.length > 1);
  return {
    title: "Distance from the pre-trained weights",
    caption:
      "Relative L2 distance of the encoder's weights from those before fine-tuning. A ring marks the model that was kept." +
      (hasSeeds ? " Lines are means over seeds; bands reach from the lowest to the highest." : ""),
    legend: groups.map(({ label, seeds }, i) => ({
      label: seeds.length > 1 ? `${label}, ${seeds.length} seeds` : label,
      color: colors[i]!,
      shape: "line",
    })),
    panels,
    columns: 3,
  };
}
