import { z } from "zod";
import { UserError } from "../base/errors.js";
import { formatNumber, formatWithInterval } from "../base/format.js";
import { groupBy } from "../base/group-by.js";
import { computeSeedHalfWidth, mean } from "../evaluation/statistics.js";
import { RunFolder } from "../runs/run-folder.js";
import { msgsProbes } from "../tasks/msgs.js";
import { assignColors } from "./colors.js";
import { defineAnalysis, runsOption } from "./define-analysis.js";
import { estimateTextWidth, type Figure } from "./figure.js";
import { labelGroups } from "./run-labels.js";

/** preference.json: the feature that runs on MSGS tasks learned, of two that agree in training. */
const dataSchema = z.object({
  model: z.string(),
  runs: z.array(
    z.object({
      probe: z.enum(msgsProbes),
      method: z.string(),
      seed: z.number(),
      /** Matthews correlation on disambiguating texts: 1 linguistic feature, -1 surface feature. */
      score: z.number(),
    }),
  ),
});
type PreferenceData = z.output<typeof dataSchema>;

export const preference = defineAnalysis({
  name: "preference",
  summary: "which feature runs on msgs:… tasks prefer (ROSE fig. 3)",
  unit: "runs",
  options: { runs: runsOption("runs on msgs:… tasks, or folders of them") },
  data: dataSchema,
  async run(request) {
    const found = await RunFolder.findFinished(request.runs);
    const runs = found.map(({ run, results }) => {
      const probe = msgsProbes.find((name) => results.task === `msgs:${name}`);
      const score = results.test.metrics.matthews;
      if (probe === undefined || score === undefined)
        throw new UserError(`${run.folder}: expected a run on a msgs:… task, found ${results.task}. Leave it out.`);
      return { probe, score, seed: run.config.seed };
    });
    // Runs of different probes differ in their tasks, which the panels show.
    const labels = new Map<RunFolder, string>();
    for (const group of groupBy(
      found.map(({ run }) => run),
      ({ task }) => task,
    ).values())
      for (const [i, label] of labelGroups(group).entries()) labels.set(group[i]!, label);
    const data = {
      model: [...new Set(found.map(({ results }) => results.model))].join(", "),
      runs: runs.map((each, i) => ({ ...each, method: labels.get(found[i]!.run)! })),
    };
    return { data, summary: summarizePreference(data), figure: await createPreferenceFigure(data) };
  },
});

const formatProbeName = (probe: (typeof msgsProbes)[number]): string =>
  probe
    .replace("_lexical_content_the", " against a word (the)")
    .replace("_length", " against length")
    .replace("control_raising", "control or raising")
    .replace("syntactic_category", "syntactic category");

function averageOverSeeds(runs: readonly PreferenceData["runs"][number][]) {
  return [...groupBy(runs, ({ probe, method }) => JSON.stringify([probe, method])).values()].map((same) => {
    const { probe, method } = same[0]!;
    const scores = same.map(({ score }) => score);
    const [score, half] = [mean(scores), computeSeedHalfWidth(scores)];
    // A correlation is between -1 and 1.
    return { probe, method, score, low: Math.max(-1, score - half), high: Math.min(1, score + half) };
  });
}

function summarizePreference({ runs }: PreferenceData): string {
  const each = [...groupBy(averageOverSeeds(runs), ({ probe }) => probe)].map(([probe, means]) => {
    const scores = means.map(({ method, score, low, high }) =>
      low < high ? `${method} ${formatWithInterval(score, { low, high }, 2)}` : `${method} ${formatNumber(score, 2)}`,
    );
    return `${formatProbeName(probe)}: ${scores.join(", ")}`;
  });
  const seeds = new Set(runs.map(({ seed }) => seed)).size;
  const meaning = "1 follows the linguistic feature, -1 the surface feature";
  const spread = seeds === 1 ? "1 seed, so without a CI" : `${seeds} seeds, with 95% CIs`;
  return `Mean Matthews correlation over ${spread} (${meaning}). ${each.join("; ")}.`;
}

async function createPreferenceFigure({ model, runs }: PreferenceData): Promise<Figure> {
  const { Plot, plotPanel } = await import("./plot-panel.js");
  const methods = [...new Set(runs.map(({ method }) => method))];
  // A label starts with the name of its method: "rose:variant=first".
  const colors = assignColors(methods.map((label) => ({ label, method: /^[\w-]*/.exec(label)![0] })));
  const seeds = Math.max(...runs.map(({ seed }) => seed)) + 1;
  const place = ({ method }: { readonly method: string }) => ({
    at: methods.indexOf(method),
    color: colors[methods.indexOf(method)]!,
  });
  const panels = [...groupBy(runs, ({ probe }) => probe)].map(([probe, own]) => {
    // Seeds are next to each other, so that equal scores stay visible.
    const points = own.map((run) => {
      const { at, color } = place(run);
      return { x: at + (seeds > 1 ? (0.4 * run.seed) / (seeds - 1) - 0.2 : 0), y: run.score, color };
    });
    const means = averageOverSeeds(own).map((each) => {
      const { at, color } = place(each);
      return { ...each, at, left: at - 0.3, right: at + 0.3, color };
    });
    return plotPanel(formatProbeName(probe), {
      width: Math.max(
        260,
        70 + methods.length * Math.max(80, ...methods.map((method) => estimateTextWidth(method) + 12)),
      ),
      height: 270,
      x: {
        type: "linear",
        domain: [-0.5, methods.length - 0.5],
        ticks: methods.map((_, i) => i),
        tickFormat: (i: number) => methods[i] ?? "",
        label: null,
        tickSize: 0,
      },
      y: { label: "Matthews correlation", domain: [-1, 1], grid: true, ticks: 5 },
      marks: [
        Plot.ruleY([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
        Plot.ruleY(means, { x1: "left", x2: "right", y: "score", stroke: "color", strokeWidth: 2 }),
        Plot.ruleX(means, { x: "at", y1: "low", y2: "high", stroke: "color", strokeOpacity: 0.6 }),
        Plot.dot(points, { x: "x", y: "y", fill: "color", fillOpacity: 0.75, r: 4 }),
      ],
    });
  });
  return {
    title: "Which feature is learned",
    caption:
      `${model} fine-tuned on texts in which a linguistic and a surface feature agree, tested on texts in which they ` +
      "disagree. 1: linguistic feature; -1: surface feature. Points are runs; bars are means, with 95% CIs over seeds.",
    panels,
    columns: 2,
  };
}
