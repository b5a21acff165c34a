import { z } from "zod";
import { formatNumber } from "../format.js";
import { Rng } from "../tensor/random.js";
import { alignment, averageWithinClasses, normalizeL2, uniformity } from "./alignment-uniformity.js";
import { getWheelColor } from "./colors.js";
import { type Figure, type Panel, roundSvgNumbers } from "./figure.js";
import { type TsneOptions, tsne } from "./tsne.js";
import type { Analysis } from "./write-analysis.js";

const featureMetricsSchema = z.object({
  /** Of the features to the pre-trained model's, mean squared distance on the sphere: the lower, the less was forgotten. */
  alignment: z.number(),
  /** Of the features themselves: the lower, the more evenly they fill the sphere. */
  uniformity: z.number(),
});

/** geometry.json: where features lie on the circle, and how well they align and spread. */
export const geometrySchema = z.object({
  task: z.string(),
  split: z.string(),
  labels: z.array(z.string()),
  /** The class of each example. */
  classes: z.array(z.number()),
  models: z.array(
    z.object({
      label: z.string(),
      overall: featureMetricsSchema,
      /** The same inside each class, averaged over classes. */
      withinClass: featureMetricsSchema,
      /** Angles in turns, an example each: the model's own features, and the pre-trained model's in the same embedding. */
      student: z.array(z.number()),
      teacher: z.array(z.number()).nullable(),
    }),
  ),
});
export type GeometryData = z.output<typeof geometrySchema>;
export type GeometryModel = GeometryData["models"][number];

/** Places around their middle, as angles in turns. */
export function projectToCircle(places: readonly (readonly [number, number])[]): number[] {
  const middle = [0, 1].map((axis) => places.reduce((sum, place) => sum + place[axis as 0 | 1], 0) / places.length) as [
    number,
    number,
  ];
  return places.map(([x, y]) => {
    const turn = Math.atan2(y - middle[1], x - middle[0]) / (2 * Math.PI);
    return turn < 0 ? turn + 1 : turn;
  });
}

/** The geometry of a model's features beside the pre-trained model's; `teacher` is null for the pre-trained model itself. */
export function measureGeometry(
  label: string,
  features: readonly Float32Array[],
  teacher: readonly Float32Array[] | null,
  classes: readonly number[],
  seed: number,
  options: TsneOptions = {},
): GeometryModel {
  const own = features.map(normalizeL2);
  const theirs = (teacher ?? features).map(normalizeL2);
  const pick = <T>(rows: readonly T[], members: readonly number[]): T[] => members.map((i) => rows[i]!);
  // Student and teacher are embedded together: only then do their angles compare.
  const turns = projectToCircle(tsne(teacher ? [...own, ...theirs] : own, new Rng(seed).fork("t-sne"), options));
  return {
    label,
    overall: { alignment: alignment(own, theirs), uniformity: uniformity(own) },
    withinClass: {
      alignment: averageWithinClasses(classes, (members) => alignment(pick(own, members), pick(theirs, members))),
      uniformity: averageWithinClasses(classes, (members) => uniformity(pick(own, members))),
    },
    student: turns.slice(0, own.length),
    teacher: teacher ? turns.slice(own.length) : null,
  };
}

export function createGeometryAnalysis(data: GeometryData): Analysis<GeometryData> {
  return {
    name: "geometry",
    schema: geometrySchema,
    data,
    meaning: summarizeGeometry(data),
    figure: createGeometryFigure(data),
  };
}

function summarizeGeometry({ models }: GeometryData): string {
  const each = models.map(({ label, overall, withinClass }) => {
    const spread = `uniformity ${formatNumber(overall.uniformity, 3)}, ${formatNumber(withinClass.uniformity, 3)} within a class`;
    return `${label}: alignment ${formatNumber(overall.alignment, 3)}, ${spread}`;
  });
  return `${each.join("; ")}. Lower alignment: closer to the pre-trained features; lower uniformity: more evenly spread.`;
}

const panelSize = 250;

/** A ring of marks: colour is the example, by its place before fine-tuning; shape is the class. */
function renderRing(
  turns: readonly number[],
  radius: number,
  classes: readonly number[],
  colors: readonly string[],
  size: number,
): string {
  const reach = panelSize / 2 - 14;
  const guide = `<circle cx="${panelSize / 2}" cy="${panelSize / 2}" r="${reach * radius}" fill="none" stroke="currentColor" stroke-opacity="0.15"/>`;
  const marks = turns
    .map((turn, i) => {
      const angle = 2 * Math.PI * turn;
      const [x, y] = [
        panelSize / 2 + reach * radius * Math.cos(angle),
        panelSize / 2 - reach * radius * Math.sin(angle),
      ];
      return `<path transform="translate(${x},${y})" d="${getMarkerPath(classes[i]!, size)}" fill="${colors[i]}" fill-opacity="0.8"/>`;
    })
    .join("");
  return guide + marks;
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
  // Neighbours before fine-tuning have like colours, so that what stays together shows.
  const colors = (models[0]?.student ?? []).map(getWheelColor);
  const panels = models.map(
    ({ label, student, teacher, overall }): Panel => ({
      title: label,
      width: panelSize,
      height: panelSize + 4,
      content: roundSvgNumbers(
        renderRing(student, 1, classes, colors, 3.2) +
          (teacher ? renderRing(teacher, 0.82, classes, colors, 2.2) : "") +
          `<g font-size="10" text-anchor="middle" fill-opacity="0.8"><text x="${panelSize / 2}" y="${panelSize / 2 - 4}">alignment ${formatNumber(overall.alignment, 3)}</text>` +
          `<text x="${panelSize / 2}" y="${panelSize / 2 + 12}">uniformity ${formatNumber(overall.uniformity, 3)}</text></g>`,
      ),
    }),
  );
  return {
    title: "The geometry of features",
    caption: `t-SNE of the features of ${classes.length} examples (${split} split of ${task}), mapped onto the circle: the model outside, the pre-trained model inside. Colour is the example, by its place before fine-tuning.`,
    legend: labels
      .slice(0, 3)
      .map((label, i) => ({ label, color: "currentColor", shape: (["triangle", "square", "circle"] as const)[i]! })),
    panels,
    columns: Math.min(4, models.length),
  };
}
