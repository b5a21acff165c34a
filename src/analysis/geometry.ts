import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatNumber, formatWithInterval } from "../base/format.js";
import { Rng } from "../base/rng.js";
import type { Model } from "../models/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import { getWheelColor } from "./colors.js";
import { defineAnalysis, findLabeledRuns, runsOption, sampleOptions } from "./define-analysis.js";
import {
  averageWithinClasses,
  bootstrapFeatureMetrics,
  computeAlignment,
  computeUniformity,
  featureIntervalsSchema,
  featureMetricsSchema,
  normalizeL2,
} from "./feature-metrics.js";
import { type Figure, type Panel, roundSvgNumbers } from "./figure.js";
import { loadFineTunedModel, loadInitialModel, loadSharedSample, withModel } from "./shared-sample.js";
import { type TsneOptions, tsne } from "./tsne.js";

/** geometry.json: positions of the features on the circle, their alignment and their uniformity. */
const dataSchema = z.object({
  task: z.string(),
  split: z.string(),
  labels: z.array(z.string()),
  /** The class of each example. */
  classes: z.array(z.number()),
  models: z.array(
    z.object({
      label: z.string(),
      overall: featureMetricsSchema,
      /** The same inside each class, averaged over the classes. */
      withinClass: featureMetricsSchema,
      /** 95% CIs over the examples. */
      intervals: z.object({ overall: featureIntervalsSchema, withinClass: featureIntervalsSchema }),
      /**
       * One angle per example, in turns: the model's features, and the pre-trained ones in the same
       * embedding.
       */
      student: z.array(z.number()),
      teacher: z.array(z.number()).nullable(),
    }),
  ),
});
type GeometryData = z.output<typeof dataSchema>;
type GeometryModel = GeometryData["models"][number];

export const geometry = defineAnalysis({
  name: "geometry",
  summary: "features of texts by t-SNE on the circle, alignment and uniformity (RIFT fig. 3)",
  unit: "models",
  options: {
    runs: runsOption("finished runs of one task, or folders of them"),
    // Of three examples, at least two share one of two classes.
    ...sampleOptions(500, 3),
    perplexity: z.number().int().min(2).max(500).default(30).describe("effective number of neighbors in t-SNE"),
    iterations: z.number().int().positive().default(750).describe("iterations of t-SNE"),
  },
  data: dataSchema,
  async run(request, context) {
    const runs = await findLabeledRuns(request.runs);
    const sample = await loadSharedSample(runs, request, context);
    const { task, examples, device } = sample;
    const { seed, split } = request;
    const classes = examples.map(({ label }) => label);
    if (new Set(classes).size === classes.length)
      throw new UserError(
        `--num-examples ${request.numExamples}: every example of ${task.name} has another class. ` +
          "Increase --num-examples, or use another --split.",
      );
    const loadFeatures = (load: () => Promise<Model>): Promise<Float32Array[]> =>
      withModel(sample, load, (model, batch) => batch.features(model.weights));
    const models: GeometryModel[] = [];
    const add = async (model: GeometryModel): Promise<void> => {
      models.push(model);
      await context.advance(models.length, runs.length + 1);
    };
    const first = runs[0]!.run;
    const initial = await loadFeatures(() => loadInitialModel(first, task.labels, device));
    await add(measureGeometry("before fine-tuning", initial, null, classes, seed, request));
    for (const { run, label } of runs) {
      const teacher = hasSameStart(run, first)
        ? initial
        : await loadFeatures(() => loadInitialModel(run, task.labels, device));
      const student = await loadFeatures(() => loadFineTunedModel(run, device));
      await add(measureGeometry(label, student, teacher, classes, seed, request));
    }
    const data = { task: task.name, split, labels: [...task.labels], classes, models };
    return { data, summary: summarizeGeometry(data), figure: createGeometryFigure(data) };
  },
});

/** Whether two runs started from models with the same features. */
function hasSameStart(a: RunFolder, b: RunFolder): boolean {
  const keys = ["model", "pooling", "tokenization", "maxLength"] as const;
  return keys.every((key) => a.config[key] === b.config[key]);
}

/** Maps positions to angles around their center, in turns. */
export function projectToCircle(positions: readonly (readonly [number, number])[]): number[] {
  const average = (axis: 0 | 1): number =>
    positions.reduce((sum, position) => sum + position[axis], 0) / positions.length;
  const center = [average(0), average(1)] as const;
  return positions.map(([x, y]) => {
    const turn = Math.atan2(y - center[1], x - center[0]) / (2 * Math.PI);
    return turn < 0 ? turn + 1 : turn;
  });
}

/**
 * Compares a model's features with the pre-trained ones. `teacher` is null for the pre-trained
 * model itself.
 */
function measureGeometry(
  label: string,
  features: readonly Float32Array[],
  teacher: readonly Float32Array[] | null,
  classes: readonly number[],
  seed: number,
  options: TsneOptions,
): GeometryModel {
  const own = features.map(normalizeL2);
  const theirs = (teacher ?? features).map(normalizeL2);
  const pick = <T>(rows: readonly T[], members: readonly number[]): T[] => members.map((i) => rows[i]!);
  // Student and teacher share one embedding; only then can their angles be compared.
  const turns = projectToCircle(tsne(teacher ? [...own, ...theirs] : own, new Rng(seed).fork("t-sne"), options));
  return {
    label,
    overall: { alignment: computeAlignment(own, theirs), uniformity: computeUniformity(own) },
    withinClass: {
      alignment: averageWithinClasses(classes, (members) =>
        computeAlignment(pick(own, members), pick(theirs, members)),
      ),
      uniformity: averageWithinClasses(classes, (members) => computeUniformity(pick(own, members))),
    },
    intervals: bootstrapFeatureMetrics(own, theirs, classes, new Rng(seed).fork("feature metrics")),
    student: turns.slice(0, own.length),
    teacher: teacher ? turns.slice(own.length) : null,
  };
}

function summarizeGeometry({ models, classes }: GeometryData): string {
  const each = models.map(({ label, overall, withinClass, intervals }) => {
    const format = (metrics: typeof overall, own: typeof intervals.overall, name: "alignment" | "uniformity") =>
      formatWithInterval(metrics[name], own[name]);
    return (
      `${label}: alignment ${format(overall, intervals.overall, "alignment")}, ` +
      `uniformity ${format(overall, intervals.overall, "uniformity")}, ` +
      `within a class ${format(withinClass, intervals.withinClass, "uniformity")}`
    );
  });
  const meaning = "Alignment 0: the pre-trained features. Lower uniformity: spread more evenly.";
  return `Over ${classes.length} examples, with 95% CIs: ${each.join("; ")}. ${meaning}`;
}

const panelSize = 250;

/** Renders one ring. The color of a mark is its example, the shape is its class. */
function renderRing(
  turns: readonly number[],
  radius: number,
  classes: readonly number[],
  colors: readonly string[],
  size: number,
): string {
  const center = panelSize / 2;
  const r = (center - 14) * radius;
  const marks = turns.map((turn, i) => {
    const angle = 2 * Math.PI * turn;
    const [x, y] = [center + r * Math.cos(angle), center - r * Math.sin(angle)];
    const path = getMarkerPath(classes[i]!, size);
    return `<path transform="translate(${x},${y})" d="${path}" fill="${colors[i]}" fill-opacity="0.8"/>`;
  });
  const line = 'fill="none" stroke="currentColor" stroke-opacity="0.15"';
  return `<circle cx="${center}" cy="${center}" r="${r}" ${line}/>${marks.join("")}`;
}

function getMarkerPath(index: number, size: number): string {
  const shapes = [
    `M0,${-1.2 * size}l${1.1 * size},${2 * size}h${-2.2 * size}z`,
    `M${-size},${-size}h${2 * size}v${2 * size}h${-2 * size}z`,
    `M0,${-1.3 * size}l${1.3 * size},${1.3 * size}l${-1.3 * size},${1.3 * size}l${-1.3 * size},${-1.3 * size}z`,
  ];
  return shapes[index % shapes.length]!;
}

function createGeometryFigure({ task, split, labels, classes, models }: GeometryData): Figure {
  // Neighbors before fine-tuning have similar colors, so that the figure shows which ones stay
  // together.
  const colors = (models[0]?.student ?? []).map(getWheelColor);
  const panels = models.map(({ label, student, teacher, overall }): Panel => {
    const text = (y: number, name: "alignment" | "uniformity"): string =>
      `<text x="${panelSize / 2}" y="${panelSize / 2 + y}">${name} ${formatNumber(overall[name], 3)}</text>`;
    const outer = renderRing(student, 1, classes, colors, 3.2);
    const inner = teacher ? renderRing(teacher, 0.9, classes, colors, 2.2) : "";
    const texts = `${text(-4, "alignment")}${text(12, "uniformity")}`;
    const content = `${outer}${inner}<g font-size="10" text-anchor="middle" fill-opacity="0.8">${texts}</g>`;
    return { title: label, width: panelSize, height: panelSize + 4, content: roundSvgNumbers(content) };
  });
  return {
    title: "Geometry of the features",
    caption:
      `t-SNE of the features of ${classes.length} examples (${split} split of ${task}), mapped onto the circle. ` +
      "Outer ring: the model. Inner ring: the pre-trained model. " +
      "Colors show the position of the example before fine-tuning.",
    legend: labels
      .slice(0, 3)
      .map((label, i) => ({ label, color: "currentColor", shape: (["triangle", "square", "circle"] as const)[i]! })),
    panels,
    columns: Math.min(4, models.length),
  };
}
