import { join } from "node:path";
import { z } from "zod";
import { evaluateExamples } from "../actions/evaluate.js";
import { prepareRun } from "../actions/train/prepare-run.js";
import { reportProgress } from "../base/events.js";
import { formatNumber, formatWithInterval } from "../base/format.js";
import { openResultCache } from "../base/result-cache.js";
import { orNull } from "../base/validate.js";
import { computeSeedHalfWidth, type Interval, mean } from "../evaluation/statistics.js";
import { type ResolvedRun, resolveRun, userModules } from "../settings/read-config.js";
import { type MsgsProbe, msgsProbes } from "../tasks/msgs.js";
import { train } from "../train/index.js";
import { assignColors } from "./colors.js";
import { type AnalysisContext, defineAnalysis, deviceOptions } from "./define-analysis.js";
import { estimateTextWidth, type Figure } from "./figure.js";
import { loadPlot } from "./load-plot.js";
import { freeAfter } from "./shared-sample.js";

/** probe.json: which feature models learn if training does not decide between two. */
const dataSchema = z.object({
  model: z.string(),
  runs: z.array(
    z.object({
      probe: z.enum(msgsProbes),
      method: z.string(),
      seed: z.number(),
      /** Matthews correlation on disambiguating texts: 1 linguistic feature, -1 surface feature. */
      score: z.number(),
      /** The same on texts like those of training. It is near 1 if the task was learned. */
      learned: z.number(),
    }),
  ),
});
type ProbeRun = z.output<typeof dataSchema>["runs"][number];

const positive = z.number().positive();
const count = z.number().int().positive();

export const probe = defineAnalysis({
  name: "probe",
  summary: "which feature a model learns from ambiguous data (ROSE fig. 3)",
  unit: "steps",
  keeps: "Every finished run is kept.",
  options: {
    model: z.string().describe("a model folder, npm:PACKAGE or a Hugging Face model ID"),
    methods: z
      .array(z.string())
      .min(1)
      .default(["standard"])
      .describe("methods to compare; each is a stack, innermost first: standard, r-drop+rose:variant=first"),
    probes: z
      .array(z.enum(msgsProbes))
      .min(1)
      // ROSE's figure 3: a syntactic construction against a word, and against length.
      .default(["control_raising_lexical_content_the", "control_raising_length"])
      .describe("MSGS probes"),
    seeds: count.default(5).describe("runs per probe and method"),
    data: z.string().nullable().default(null).describe("folder of the MSGS data"),
    maxTrainSamples: orNull(count, "all").describe("train on a class-balanced sample"),
    epochs: positive.default(1).describe("passes over the training data"),
    batchSize: orNull(count, "as in temper train").describe("examples per batch"),
    learningRate: orNull(positive, "as in temper train").describe("peak learning rate"),
    maxLength: count.default(48).describe("maximum tokens per text"),
    ...deviceOptions,
  },
  data: dataSchema,
  async run(request, context) {
    const { model, epochs, batchSize, learningRate, data, maxTrainSamples, maxLength, device, threads } = request;
    const shared = { model, data, maxTrainSamples, maxLength, device, threads };
    const settings = {
      epochs,
      ...(batchSize !== null && { batchSize }),
      ...(learningRate !== null && { learningRate }),
    };
    const planned: { probe: MsgsProbe; method: string; run: ResolvedRun }[] = [];
    for (const name of request.probes)
      for (const method of request.methods)
        for (let seed = 0; seed < request.seeds; seed++) {
          const tree = { ...shared, task: `msgs:${name}`, methods: method.split("+"), seed, train: settings };
          planned.push({ probe: name, method, run: await resolveRun(tree, userModules, () => "probe") });
        }
    const runs: ProbeRun[] = [];
    const cache = openResultCache<Pick<ProbeRun, "score" | "learned">>(join(context.out, "probe.runs.jsonl"));
    try {
      for (const { probe: name, method, run } of planned) {
        const { config } = run;
        const key = JSON.stringify(config);
        let scores = cache.get(key);
        if (!scores) {
          const stage = `run ${runs.length + 1} of ${planned.length}: ${name}, ${method}, seed ${config.seed}`;
          scores = await runProbe(run, stage, context);
          cache.add(key, scores);
        }
        runs.push({ probe: name, method, seed: config.seed, ...scores });
      }
    } finally {
      cache.close();
    }
    const found = { model, runs };
    return { data: found, summary: summarizeProbes(found), figure: await createProbeFigure(found) };
  },
});

async function runProbe(
  run: ResolvedRun,
  stage: string,
  context: AnalysisContext,
): Promise<Pick<ProbeRun, "score" | "learned">> {
  const { job, runtime, examples } = await prepareRun(run, context);
  return freeAfter(job.model, async (model) => {
    await train({
      ...job,
      validation: null,
      files: null,
      resume: false,
      signal: context.signal,
      onEvent(event) {
        if (event.type === "warning") context.onEvent?.(event);
        if (event.type === "step") reportProgress(context, stage, event.step, event.totalSteps);
      },
    });
    const ambiguous = examples.validation ?? examples.train;
    const score = await evaluateExamples(model, job.task, examples.test, "test", runtime);
    const learned = await evaluateExamples(model, job.task, ambiguous, "validation", runtime);
    return { score: score.metrics.matthews!, learned: learned.metrics.matthews! };
  });
}

const formatProbeName = (probe: MsgsProbe): string =>
  probe
    .replace("_lexical_content_the", " against a word (the)")
    .replace("_length", " against length")
    .replace("control_raising", "control or raising")
    .replace("syntactic_category", "syntactic category");

function averageOverSeeds(
  runs: readonly ProbeScore[],
): { probe: MsgsProbe; method: string; score: number; half: number }[] {
  const probes = [...new Set(runs.map(({ probe }) => probe))];
  const methods = [...new Set(runs.map(({ method }) => method))];
  return probes.flatMap((probe) =>
    methods.flatMap((method) => {
      const scores = runs.filter((run) => run.probe === probe && run.method === method).map(({ score }) => score);
      return scores.length === 0 ? [] : [{ probe, method, score: mean(scores), half: computeSeedHalfWidth(scores) }];
    }),
  );
}

export type ProbeScore = Pick<ProbeRun, "probe" | "method" | "seed" | "score">;

export function summarizeProbes({ runs }: { readonly runs: readonly ProbeScore[] }): string {
  const groups = averageOverSeeds(runs);
  const each = [...new Set(groups.map(({ probe }) => probe))].map((probe) => {
    const own = groups.filter((group) => group.probe === probe);
    const scores = own.map(({ method, score, half }) =>
      half > 0
        ? `${method} ${formatWithInterval(score, clampToCorrelation(score, half), 2)}`
        : `${method} ${formatNumber(score, 2)}`,
    );
    return `${formatProbeName(probe)}: ${scores.join(", ")}`;
  });
  const seeds = new Set(runs.map(({ seed }) => seed)).size;
  const meaning = "1 follows the linguistic feature, -1 the surface feature";
  const spread = seeds === 1 ? "1 seed, so without a CI" : `${seeds} seeds, with 95% CIs`;
  return `Mean Matthews correlation over ${spread} (${meaning}). ${each.join("; ")}.`;
}

/** The interval of a mean correlation, which is between -1 and 1. */
function clampToCorrelation(score: number, half: number): Interval {
  return { low: Math.max(-1, score - half), high: Math.min(1, score + half) };
}

export async function createProbeFigure({
  model,
  runs,
}: {
  readonly model: string;
  readonly runs: readonly ProbeScore[];
}): Promise<Figure> {
  const { Plot, createCategoryAxis, plotPanel } = await loadPlot();
  const probes = [...new Set(runs.map(({ probe }) => probe))];
  const methods = [...new Set(runs.map(({ method }) => method))];
  // A label starts with the name of its method: "rose:variant=first".
  const colors = assignColors(methods.map((label) => ({ label, method: /^[\w-]*/.exec(label)![0] })));
  const seeds = Math.max(...runs.map(({ seed }) => seed)) + 1;
  const panels = probes.map((probe) => {
    // Seeds are next to each other, so that equal scores stay visible.
    const points = runs
      .filter((run) => run.probe === probe)
      .map(({ method, seed, score }) => {
        const at = methods.indexOf(method);
        return { x: at + (seeds > 1 ? (0.4 * seed) / (seeds - 1) - 0.2 : 0), y: score, color: colors[at]! };
      });
    const means = averageOverSeeds(runs)
      .filter((group) => group.probe === probe)
      .map(({ method, score, half }) => {
        const at = methods.indexOf(method);
        const { low, high } = clampToCorrelation(score, half);
        return { x: at, x1: at - 0.3, x2: at + 0.3, y: score, low, high, color: colors[at]! };
      });
    return plotPanel(formatProbeName(probe), {
      width: Math.max(
        260,
        70 + methods.length * Math.max(80, ...methods.map((method) => estimateTextWidth(method) + 12)),
      ),
      height: 270,
      x: createCategoryAxis(methods),
      y: { label: "Matthews correlation", domain: [-1, 1], grid: true, ticks: 5 },
      marks: [
        Plot.ruleY([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
        Plot.ruleY(means, { x1: "x1", x2: "x2", y: "y", stroke: "color", strokeWidth: 2 }),
        Plot.ruleX(means, { x: "x", y1: "low", y2: "high", stroke: "color", strokeOpacity: 0.6 }),
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
