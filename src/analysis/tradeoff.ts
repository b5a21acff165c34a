import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { capitalize, formatCount, formatInterval, formatPercent } from "../base/format.js";
import { describeMetric } from "../evaluation/metric-table.js";
import { intervalSchema, wilsonInterval } from "../evaluation/statistics.js";
import type { RunFolder } from "../runs/run-folder.js";
import { readDegeneracy, readMetrics } from "../runs/run-metrics.js";
import { assignColors } from "./colors.js";
import { defineAnalysis, findLabeledRuns, runsOption } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { getOption } from "./run-labels.js";

/** tradeoff.json: accuracy under each attack and accuracy without one, run by run. */
const dataSchema = z.object({
  attacks: z.array(z.string()),
  runs: z.array(
    z.object({
      label: z.string(),
      folder: z.string(),
      method: z.string(),
      /** Weight of the robust loss, if there is one. It orders the runs of one method. */
      beta: z.number().nullable(),
      /** On the test split, without an attack, with the 95% CI. */
      accuracy: z.number(),
      examples: z.number(),
      interval: intervalSchema,
      degeneracy: z.string().nullable(),
      /** By attack, with the 95% CI. If only one label was attacked, the accuracy is its recall. */
      robust: z.record(
        z.string(),
        z.object({
          accuracy: z.number(),
          low: z.number(),
          high: z.number(),
          examples: z.number(),
          attackedLabel: z.string().nullable(),
        }),
      ),
    }),
  ),
});
type TradeoffData = z.output<typeof dataSchema>;

export const tradeoff = defineAnalysis({
  name: "tradeoff",
  summary: "accuracy under attacks against clean accuracy (RIFT fig. 4)",
  unit: "runs",
  readsAttacks: true,
  options: { runs: runsOption("attacked runs, or folders of them") },
  data: dataSchema,
  async run(request, context) {
    const runs = await findAttackedRuns(request.runs, context);
    const attacks = listAttacks(runs);
    if (attacks.length === 0)
      throw new UserError(
        `None of the ${runs.length} runs has a finished attack. Run one first: temper attack ${runs[0]!.run.folder}`,
      );
    const ordered = runs.map(({ run, measured }) => {
      const beta = getOption(run, "beta");
      return { ...measured, beta: typeof beta === "number" ? beta : null };
    });
    const data: TradeoffData = { attacks, runs: ordered };
    return { data, summary: summarizeTradeoff(data), figure: await createTradeoffFigure(data) };
  },
});

export interface MeasuredRun {
  readonly run: RunFolder;
  readonly measured: Omit<TradeoffData["runs"][number], "beta">;
}

/** Finds finished runs and reads their metrics. Skips unfinished attacks with a warning. */
export async function findAttackedRuns(folders: readonly string[], context: Callbacks): Promise<MeasuredRun[]> {
  return Promise.all(
    (await findLabeledRuns(folders)).map(async ({ run, label, results }) => {
      const [{ journals }, metrics] = [await run.attacks(), await readMetrics(run)];
      const robust: Record<string, TradeoffData["runs"][number]["robust"][string]> = {};
      for (const [attack, { path, finished, results: done, header }] of journals) {
        if (!finished)
          warn(
            context,
            `Skipped ${path}: ${done.length} of ${header.examples} examples are done. ` +
              "Finish it with temper attack … --resume.",
          );
        const metric = metrics.get(attack);
        if (!metric?.examples) continue;
        const { value: accuracy, examples, attackedLabel = null } = metric;
        const interval = wilsonInterval(Math.round(accuracy * examples), examples);
        robust[attack] = { accuracy, ...interval, examples, attackedLabel };
      }
      const degeneracy = await readDegeneracy(run);
      if (degeneracy !== null) warn(context, `${run.folder} is degenerate: ${degeneracy}.`);
      const { accuracy, examples, interval } = results.test;
      const { folder, method } = run;
      return { run, measured: { label, folder, method, accuracy, examples, interval, degeneracy, robust } };
    }),
  );
}

/** The attacks of RIFT's figure 4 come first. */
const panelOrder = ["genetic", "pwws"];

export function listAttacks(runs: readonly MeasuredRun[]): string[] {
  const names = [...new Set(runs.flatMap(({ measured }) => Object.keys(measured.robust)))];
  const rank = (name: string): number => (panelOrder.includes(name) ? panelOrder.indexOf(name) : panelOrder.length);
  return names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** Lists the runs by accuracy under attack. A degenerate model is named, not ranked. */
function summarizeTradeoff({ attacks, runs }: TradeoffData): string {
  const sound = runs.filter(({ degeneracy }) => degeneracy === null);
  const withoutAttack = `accuracy without attack on ${formatTexts(runs.map(({ examples }) => examples))}`;
  const sentences = attacks.flatMap((attack) => {
    const sorted = sound
      .filter(({ robust }) => robust[attack])
      .sort((a, b) => b.robust[attack]!.accuracy - a.robust[attack]!.accuracy);
    const each = sorted.slice(0, maxListedRuns).map(({ label, accuracy: clean, robust }) => {
      const { accuracy, low, high } = robust[attack]!;
      const interval = `95% CI ${formatInterval(low, high)}`;
      return `${label} ${formatPercent(accuracy)} (${interval}; ${formatPercent(clean)} ${withoutAttack})`;
    });
    const { title, texts } = describeAttack(attack, runs);
    const rest = sorted.length > maxListedRuns ? `, and ${sorted.length - maxListedRuns} more` : "";
    return each.length > 0 ? [`${capitalize(title)}, ${texts}: ${each.join(", ")}${rest}.`] : [];
  });
  const degenerate = runs.flatMap(({ label, degeneracy }) =>
    degeneracy === null ? [] : [`${label} is degenerate: ${degeneracy}.`],
  );
  return [...sentences, ...degenerate].join(" ");
}

const maxListedRuns = 6;

function formatTexts(counts: readonly number[]): string {
  const different = new Set(counts);
  return different.size === 1 ? `${formatCount(counts[0]!)} texts` : "different texts";
}

function describeAttack(
  attack: string,
  runs: TradeoffData["runs"],
): { readonly title: string; readonly texts: string } {
  const found = runs.flatMap(({ robust }) => robust[attack] ?? []);
  const labels = [...new Set(found.map(({ attackedLabel }) => attackedLabel))];
  const { title } = describeMetric(attack, labels.length === 1 ? labels[0] : null);
  return { title, texts: formatTexts(found.map(({ examples }) => examples)) };
}

async function createTradeoffFigure({ attacks, runs }: TradeoffData): Promise<Figure> {
  const { Plot, plotPanel } = await import("./plot-panel.js");
  const methods = [...new Set(runs.map(({ method }) => method))];
  const colors = assignColors(methods.map((method) => ({ method, label: method })));
  const panels = attacks.map((attack) => {
    const { title, texts } = describeAttack(attack, runs);
    const points = runs.flatMap(({ method, beta, accuracy: clean, examples, interval, degeneracy, robust }) => {
      const attacked = robust[attack];
      if (!attacked) return [];
      const { accuracy, low, high } = attacked;
      return [
        {
          method,
          beta,
          examples,
          x: 100 * clean,
          y: 100 * accuracy,
          low: 100 * low,
          high: 100 * high,
          left: 100 * interval.low,
          right: 100 * interval.high,
          color: colors[methods.indexOf(method)]!,
          isSound: degeneracy === null,
        },
      ];
    });
    // A curve connects one method at several values of beta; other seeds are only points.
    const curves = methods.flatMap((method) => {
      const own = points
        .filter((point) => point.isSound && point.method === method && point.beta !== null)
        .sort((a, b) => a.beta! - b.beta!);
      return new Set(own.map(({ beta }) => beta)).size > 1 ? own : [];
    });
    return plotPanel(`under ${attack}`, {
      width: 360,
      height: 280,
      marginRight: 24,
      x: {
        label: `clean accuracy, ${formatTexts(points.map(({ examples }) => examples))} (%)`,
        grid: true,
        nice: true,
        ticks: 5,
      },
      y: { label: `${title}, ${texts} (%)`, grid: true, nice: true, ticks: 6 },
      marks: [
        Plot.ruleX(points, { x: "x", y1: "low", y2: "high", stroke: "color", strokeWidth: 1.5 }),
        Plot.ruleY(points, { y: "y", x1: "left", x2: "right", stroke: "color", strokeWidth: 1.5 }),
        Plot.line(curves, { x: "x", y: "y", stroke: "color", z: "method", strokeWidth: 1.8 }),
        Plot.dot(
          points.filter(({ isSound }) => isSound),
          { x: "x", y: "y", fill: "color", r: 4.5 },
        ),
        Plot.dot(
          points.filter(({ isSound }) => !isSound),
          { x: "x", y: "y", stroke: "color", symbol: "times", r: 4.5 },
        ),
      ],
    });
  });
  const hasCurves = new Set(runs.map(({ method, beta }) => JSON.stringify([method, beta]))).size > methods.length;
  const degenerate = runs.some(({ degeneracy }) => degeneracy !== null) ? " Crosses are degenerate models." : "";
  return {
    title: "Robustness against clean accuracy",
    caption:
      "Every point is a run; up and to the right is better. Lines through a point are the 95% CIs of both numbers. " +
      `${hasCurves ? "Curves connect the runs of a method in the order of beta." : ""}${degenerate}`,
    legend: methods.map((label, i) => ({ label, color: colors[i]!, shape: "circle" })),
    panels,
    columns: 2,
  };
}
