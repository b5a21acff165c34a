import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { UserError } from "../errors.js";
import { mean } from "../evaluation/statistics.js";
import { formatPercent } from "../format.js";
import { type AttackedRun, listAttackNames } from "./attacked-runs.js";
import { getColor } from "./colors.js";
import { type Figure, plotPanel } from "./figure.js";
import { getOption } from "./load-runs.js";
import type { Analysis } from "./write-analysis.js";

/** ablation.json: accuracy, clean and under attacks, at each value of one option. */
export const ablationSchema = z.object({
  by: z.string(),
  /** Names of the scores: clean, then the attacks. */
  scores: z.array(z.string()),
  values: z.array(
    z.object({
      value: z.union([z.number(), z.string()]),
      runs: z.array(z.object({ folder: z.string(), seed: z.number(), scores: z.record(z.string(), z.number()) })),
      mean: z.record(z.string(), z.number()),
    }),
  ),
});
export type AblationData = z.output<typeof ablationSchema>;

/** What one option does to accuracy and robustness (RIFT table 4). Runs without the option are left out. */
export function analyzeAblation(runs: readonly AttackedRun[], by: string): Analysis<AblationData> {
  const valued = runs.flatMap((run) => {
    const value = getOption(run, by);
    return value === null ? [] : [{ run, value }];
  });
  const distinct = [...new Set(valued.map(({ value }) => value))].sort((a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1,
  );
  if (distinct.length < 2)
    throw new UserError(
      `ablation: --by ${by}: expected runs with two values at least, received ${distinct.length === 0 ? "none that has this option" : `only ${by} ${distinct[0]}`}`,
    );
  const data: AblationData = {
    by,
    scores: ["clean", ...listAttackNames(valued.map(({ run }) => run))],
    values: distinct.map((value) => {
      const own = valued
        .filter((each) => each.value === value)
        .map(({ run }) => ({ folder: run.folder, seed: run.config.seed, scores: getScores(run) }));
      const names = [...new Set(own.flatMap(({ scores }) => Object.keys(scores)))];
      const computeMeanScore = (name: string): number =>
        mean(own.flatMap(({ scores }) => (scores[name] === undefined ? [] : [scores[name]])));
      return { value, runs: own, mean: Object.fromEntries(names.map((name) => [name, computeMeanScore(name)])) };
    }),
  };
  return {
    name: "ablation",
    schema: ablationSchema,
    data,
    meaning: summarizeAblation(data),
    figure: createAblationFigure(data),
  };
}

function getScores({ clean, attacks }: AttackedRun): Record<string, number> {
  return { clean, ...Object.fromEntries([...attacks].map(([name, { accuracy }]) => [name, accuracy])) };
}

function summarizeAblation({ by, scores, values }: AblationData): string {
  const best = scores.map((score) => {
    const having = values.filter((value) => value.mean[score] !== undefined);
    const first = having.reduce((a, b) => (b.mean[score]! > a.mean[score]! ? b : a));
    return `${score === "clean" ? "clean accuracy" : `accuracy under ${score}`} is best at ${by} ${first.value} (${formatPercent(first.mean[score]!)})`;
  });
  const text = best.join("; ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function createAblationFigure({ by, scores, values }: AblationData): Figure {
  const rows = (score: string, i: number) => ({
    means: values.flatMap(({ value, mean: means }) =>
      means[score] === undefined ? [] : [{ value, y: 100 * means[score], color: getColor(i) }],
    ),
    points: values.flatMap(({ value, runs }) =>
      runs.flatMap((run) =>
        run.scores[score] === undefined ? [] : [{ value, y: 100 * run.scores[score], color: getColor(i) }],
      ),
    ),
  });
  const all = scores.map(rows);
  const panel = plotPanel("", {
    width: 460,
    height: 300,
    // Values are seldom evenly spaced (0, 0.05, 0.1, 0.3): each has a place of its own.
    x: { label: by, type: "point", domain: values.map(({ value }) => value), padding: 0.3 },
    y: { label: "accuracy (%)", grid: true, nice: true, inset: 8, ticks: 6 },
    marks: all.flatMap(({ means, points }) => [
      Plot.line(means, { x: "value", y: "y", stroke: "color", strokeWidth: 2 }),
      Plot.dot(points, { x: "value", y: "y", fill: "color", fillOpacity: 0.45, r: 3 }),
      Plot.dot(means, { x: "value", y: "y", fill: "color", r: 4.5 }),
    ]),
  });
  return {
    title: `What ${by} does`,
    caption: "Lines and large points are means over runs, small points the runs themselves.",
    legend: scores.map((score, i) => ({
      label: score === "clean" ? "clean" : `under ${score}`,
      color: getColor(i),
      shape: "line",
    })),
    panels: [panel],
    columns: 1,
  };
}
