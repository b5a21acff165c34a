import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { UserError } from "../errors.js";
import { formatPercent } from "../format.js";
import { type AttackedRun, listAttackNames } from "./attacked-runs.js";
import { getColor } from "./colors.js";
import { type Figure, plotPanel } from "./figure.js";
import { getOption } from "./load-runs.js";
import type { Analysis } from "./write-analysis.js";

/** tradeoff.json: accuracy under each attack beside accuracy without, run by run. */
export const tradeoffSchema = z.object({
  attacks: z.array(z.string()),
  runs: z.array(
    z.object({
      label: z.string(),
      folder: z.string(),
      method: z.string(),
      /** Weight of robustness, where the method has one: runs of one method are joined in its order. */
      beta: z.number().nullable(),
      clean: z.number(),
      /** By attack, with a 95 % interval; none where the run did not meet it. */
      robust: z.record(
        z.string(),
        z.object({ accuracy: z.number(), low: z.number(), high: z.number(), examples: z.number() }),
      ),
    }),
  ),
});
export type TradeoffData = z.output<typeof tradeoffSchema>;

/** Robust against clean accuracy, a panel an attack (RIFT fig. 4). */
export function analyzeTradeoff(runs: readonly AttackedRun[]): Analysis<TradeoffData> {
  const attacks = listAttackNames(runs);
  if (attacks.length === 0)
    throw new UserError(
      `tradeoff: none of the ${runs.length} runs was attacked; attack them first: temper attack ${runs[0]?.folder ?? "RUN"}`,
    );
  const data: TradeoffData = {
    attacks,
    runs: runs.map((run) => {
      const beta = getOption(run, "beta");
      const { label, folder, method, clean } = run;
      return {
        label,
        folder,
        method,
        beta: typeof beta === "number" ? beta : null,
        clean,
        robust: Object.fromEntries(run.attacks),
      };
    }),
  };
  return {
    name: "tradeoff",
    schema: tradeoffSchema,
    data,
    meaning: summarizeTradeoff(data),
    figure: createTradeoffFigure(data),
  };
}

function summarizeTradeoff({ attacks, runs }: TradeoffData): string {
  const best = attacks.map((attack) => {
    const met = runs.filter(({ robust }) => robust[attack]);
    const first = met.reduce((a, b) => (b.robust[attack]!.accuracy > a.robust[attack]!.accuracy ? b : a));
    return `under ${attack} ${first.label} holds best (${formatPercent(first.robust[attack]!.accuracy)}, ${formatPercent(first.clean)} clean)`;
  });
  return `${capitalize(best.join("; "))}.`;
}

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function createTradeoffFigure({ attacks, runs }: TradeoffData): Figure {
  const methods = [...new Set(runs.map(({ method }) => method))];
  const panels = attacks.map((attack) => {
    const points = runs.flatMap(({ method, beta, clean, robust }) => {
      const met = robust[attack];
      if (!met) return [];
      const { accuracy, low, high } = met;
      return [
        {
          method,
          beta,
          x: 100 * clean,
          y: 100 * accuracy,
          low: 100 * low,
          high: 100 * high,
          color: getColor(methods.indexOf(method)),
        },
      ];
    });
    // A curve is what one method gives at several weights of robustness; other seeds are just more points.
    const curves = methods.flatMap((method) => {
      const own = points
        .filter((point) => point.method === method && point.beta !== null)
        .sort((a, b) => a.beta! - b.beta!);
      return new Set(own.map(({ beta }) => beta)).size > 1 ? own : [];
    });
    return plotPanel(`under ${attack}`, {
      width: 360,
      height: 280,
      x: { label: "clean accuracy (%)", grid: true, inset: 12, nice: true, ticks: 6 },
      y: { label: `accuracy under ${attack} (%)`, grid: true, inset: 8, nice: true, ticks: 6 },
      marks: [
        Plot.ruleX(points, { x: "x", y1: "low", y2: "high", stroke: "color", strokeOpacity: 0.45 }),
        Plot.line(curves, { x: "x", y: "y", stroke: "color", z: "method", strokeWidth: 1.8 }),
        Plot.dot(points, { x: "x", y: "y", fill: "color", r: 4.5 }),
      ],
    });
  });
  return {
    title: "Robustness against clean accuracy",
    caption:
      "Every point is a run; up and to the right is better. Bars are 95 % intervals of the accuracy under attack. Lines join the runs of a method in the order of beta.",
    legend: methods.map((label, i) => ({ label, color: getColor(i), shape: "circle" })),
    panels,
    columns: 2,
  };
}
