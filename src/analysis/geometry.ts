import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatNumber, formatWithInterval } from "../base/format.js";
import { Rng } from "../base/rng.js";
import { bootstrapIntervals, intervalSchema, mean } from "../evaluation/statistics.js";
import type { Model } from "../models/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import { getColor } from "./colors.js";
import { defineAnalysis, findLabeledRuns, runsOption, sampleOptions } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { loadFineTunedModel, loadInitialModel, loadSharedSample, withModel } from "./shared-sample.js";
import { squaredDistance, tsne } from "./tsne.js";

const createSchema = <T extends z.ZodType>(value: T) => {
  const metrics = z.object({
    /** Mean squared distance to the pre-trained model's features on the sphere. */
    alignment: value,
    /** The evenness of the features on the sphere. Lower: more even. */
    uniformity: value,
  });
  return z.object({
    overall: metrics,
    /** The same inside each class, averaged over the classes that have at least two examples. */
    withinClass: metrics,
  });
};

const featureMetricsSchema = createSchema(z.number()).extend({
  intervals: createSchema(intervalSchema),
});

export function normalizeL2(row: ArrayLike<number>): Float64Array {
  const values = Float64Array.from(row);
  const norm = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? values : values.map((value) => value / norm);
}

const temperature = 2;

/**
 * Alignment and uniformity on the sphere (Wang and Isola 2020): the mean squared distance of pairs,
 * and the logarithm of the mean Gaussian potential of all pairs. Both are 0 for equal vectors.
 */
export function measureFeatures(
  own: readonly ArrayLike<number>[],
  theirs: readonly ArrayLike<number>[],
  labels: readonly number[],
  rng: Rng,
): z.output<typeof featureMetricsSchema> {
  const distances = own.map((row, i) => squaredDistance(row, theirs[i]!));
  const potentials = own.map((row, i) =>
    Float64Array.from({ length: i }, (_, j) => Math.exp(-temperature * squaredDistance(row, own[j]!))),
  );
  const all = [...own.keys()];
  const classes = [...new Set(labels)]
    .map((label) => all.filter((i) => labels[i] === label))
    .filter((members) => members.length > 1);
  const computeAlignment = (members: readonly number[], draws: Float64Array): number => {
    let [sum, count] = [0, 0];
    for (const i of members) {
      sum += draws[i]! * distances[i]!;
      count += draws[i]!;
    }
    return sum / count;
  };
  // An example that was drawn twice is no pair with itself, which would count as a distance of 0.
  const computeUniformity = (members: readonly number[], draws: Float64Array): number => {
    let [sum, count] = [0, 0];
    for (const [at, i] of members.entries()) {
      if (draws[i] === 0) continue;
      for (let k = 0; k < at; k++) {
        const weight = draws[i]! * draws[members[k]!]!;
        sum += weight * potentials[i]![members[k]!]!;
        count += weight;
      }
    }
    return Math.log(sum / count);
  };
  // A resample may lack a class, or have only one example of it.
  const average = (values: readonly number[]): number => mean(values.filter((value) => Number.isFinite(value)));
  const measure = (draws: Float64Array): number[] => [
    computeAlignment(all, draws),
    computeUniformity(all, draws),
    average(classes.map((members) => computeAlignment(members, draws))),
    average(classes.map((members) => computeUniformity(members, draws))),
  ];
  const group = <T>([alignment, uniformity, alignmentInClass, uniformityInClass]: readonly T[]) => ({
    overall: { alignment: alignment!, uniformity: uniformity! },
    withinClass: { alignment: alignmentInClass!, uniformity: uniformityInClass! },
  });
  return {
    ...group(measure(new Float64Array(own.length).fill(1))),
    intervals: group(bootstrapIntervals(own.length, measure, rng)),
  };
}

/** geometry.json: positions of the features on the circle, their alignment and their uniformity. */
const dataSchema = z.object({
  task: z.string(),
  split: z.string(),
  labels: z.array(z.string()),
  classes: z.array(z.number()),
  models: z.array(
    featureMetricsSchema.extend({
      label: z.string(),
      /** One angle per example in turns. Both feature sets are in the same embedding. */
      student: z.array(z.number()),
      teacher: z.array(z.number()).nullable(),
    }),
  ),
});
type GeometryData = z.output<typeof dataSchema>;

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
    const models: GeometryData["models"][number][] = [];
    const add = async (model: GeometryData["models"][number]): Promise<void> => {
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
    return { data, summary: summarizeGeometry(data), figure: await createGeometryFigure(data) };
  },
});

function hasSameStart(a: RunFolder, b: RunFolder): boolean {
  const keys = ["model", "pooling", "tokenization", "maxLength"] as const;
  return keys.every((key) => a.config[key] === b.config[key]);
}

export function projectToCircle(positions: readonly (readonly [number, number])[]): number[] {
  const average = (axis: 0 | 1): number =>
    positions.reduce((sum, position) => sum + position[axis], 0) / positions.length;
  const center = [average(0), average(1)] as const;
  return positions.map(([x, y]) => {
    const turn = Math.atan2(y - center[1], x - center[0]) / (2 * Math.PI);
    return turn < 0 ? turn + 1 : turn;
  });
}

/** Compares features with the pre-trained ones; null for the pre-trained model itself. */
function measureGeometry(
  label: string,
  features: readonly Float32Array[],
  teacher: readonly Float32Array[] | null,
  classes: readonly number[],
  seed: number,
  options: Parameters<typeof tsne>[2],
): GeometryData["models"][number] {
  const own = features.map(normalizeL2);
  const theirs = (teacher ?? features).map(normalizeL2);
  // Student and teacher share one embedding; only then can their angles be compared.
  const turns = projectToCircle(tsne(teacher ? [...own, ...theirs] : own, new Rng(seed).fork("t-sne"), options));
  return {
    label,
    ...measureFeatures(own, theirs, classes, new Rng(seed).fork("feature metrics")),
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

/** The mark of each class, besides its color. More classes than marks share them. */
const symbols = ["circle", "triangle", "square"] as const;
const getSymbol = (label: number): (typeof symbols)[number] => symbols[label % symbols.length]!;

async function createGeometryFigure({ task, split, labels, classes, models }: GeometryData): Promise<Figure> {
  const { Plot, plotPanel } = await import("./plot-panel.js");
  const size = 250;
  const margin = 14;
  const drawRing = (turns: readonly number[], radius: number, r: number) => {
    const marks = turns.map((turn, i) => ({
      x: radius * Math.cos(2 * Math.PI * turn),
      y: radius * Math.sin(2 * Math.PI * turn),
      color: getColor(classes[i]!),
      symbol: getSymbol(classes[i]!),
    }));
    return [
      Plot.dot([[0, 0]], { r: radius * (size / 2 - margin), stroke: "currentColor", strokeOpacity: 0.15 }),
      Plot.dot(marks, { x: "x", y: "y", symbol: "symbol", fill: "color", fillOpacity: 0.7, r }),
    ];
  };
  const axis = { axis: null, domain: [-1, 1] };
  const panels = models.map(({ label, student, teacher, overall }) => {
    const format = (name: "alignment" | "uniformity"): string => `${name} ${formatNumber(overall[name], 3)}`;
    return plotPanel(label, {
      width: size,
      height: size,
      marginTop: margin,
      marginRight: margin,
      marginBottom: margin,
      marginLeft: margin,
      x: axis,
      y: axis,
      marks: [
        drawRing(student, 1, 3.2),
        teacher && drawRing(teacher, 0.9, 2.2),
        Plot.text([`${format("alignment")}\n${format("uniformity")}`], { x: 0, y: 0, fillOpacity: 0.8 }),
      ],
    });
  });
  return {
    title: "Geometry of the features",
    caption:
      `t-SNE of the features of ${classes.length} examples (${split} split of ${task}), mapped onto the circle. ` +
      "Outer ring: the model. Inner ring: the pre-trained model. Colors and marks are the classes.",
    legend: labels.map((label, i) => ({ label, color: getColor(i), shape: getSymbol(i) })),
    panels,
    columns: Math.min(4, models.length),
  };
}
