import * as Plot from "@observablehq/plot";
import { z } from "zod";
import { mean } from "../evaluation/statistics.js";
import { formatNumber } from "../format.js";
import { type RunConfig, runConfigSchema } from "../runs/config.js";
import { evaluateExamples } from "../runs/evaluate.js";
import { createTrainingJob, prepareRun } from "../runs/prepare-run.js";
import { type MsgsProbe, msgsProbes } from "../tasks/msgs.js";
import { free } from "../tensor/index.js";
import { type TrainingCallbacks, train } from "../train/index.js";
import { getColor } from "./colors.js";
import { estimateTextWidth, type Figure, plotPanel } from "./figure.js";
import type { ResultCache } from "./result-cache.js";
import type { Analysis } from "./write-analysis.js";

/** probe.json: which feature models learn where training leaves them the choice. */
export const probeSchema = z.object({
  model: z.string(),
  runs: z.array(
    z.object({
      probe: z.enum(msgsProbes),
      method: z.string(),
      seed: z.number(),
      /** Matthews correlation on disambiguating texts: 1 is the linguistic feature, -1 the surface feature. */
      score: z.number(),
      /** The same on texts like those of training: near 1 where the task was learnt at all. */
      learnt: z.number(),
    }),
  ),
});
export type ProbeData = z.output<typeof probeSchema>;
export type ProbeRun = ProbeData["runs"][number];
export type ProbeScores = Pick<ProbeRun, "score" | "learnt">;

/** The two that ROSE plots (fig. 3): a syntactic construction against a word, and against length. */
export const paperProbes: readonly MsgsProbe[] = ["control_raising_lexical_content_the", "control_raising_length"];

export interface ProbeRequest {
  readonly probes: readonly MsgsProbe[];
  /** Lists of methods as a config has them, innermost first, each under a name of its own. */
  readonly methods: readonly { readonly label: string; readonly method: RunConfig["methods"] }[];
  readonly seeds: number;
  /** All else of a run's config. */
  readonly config: z.input<typeof runConfigSchema>;
  readonly cache: Pick<ResultCache<ProbeScores>, "get" | "add">;
  /** Asked for before each run: its name, how many are done, how many there will be. */
  readonly createCallbacks?: (name: string, done: number, total: number) => TrainingCallbacks;
  readonly warn: (message: string) => void;
}

/** Fine-tunes on ambiguous texts and tests on disambiguating ones, once for each probe, method and seed that the ledger lacks. */
export async function runProbes(request: ProbeRequest): Promise<ProbeRun[]> {
  const { probes, methods, seeds, config, cache, warn } = request;
  const plan = probes.flatMap((probe) =>
    methods.flatMap(({ label, method }) =>
      Array.from({ length: seeds }, (_, seed) => ({
        probe,
        label,
        config: runConfigSchema.parse({ ...config, task: `msgs:${probe}`, method, seed }),
      })),
    ),
  );
  const runs: ProbeRun[] = [];
  for (const { probe, label, config: each } of plan) {
    const key = JSON.stringify(each);
    let scores = cache.get(key);
    if (!scores) {
      const callbacks = request.createCallbacks?.(`${probe}, ${label}, seed ${each.seed}`, runs.length, plan.length);
      scores = await runProbe(each, warn, callbacks);
      cache.add(key, scores);
    }
    runs.push({ probe, method: label, seed: each.seed, ...scores });
  }
  return runs;
}

async function runProbe(
  config: RunConfig,
  warn: (message: string) => void,
  callbacks?: TrainingCallbacks,
): Promise<ProbeScores> {
  const preparedRun = await prepareRun(config, warn);
  const { model, runtimeConfig, examples } = preparedRun;
  try {
    await train({
      ...createTrainingJob(preparedRun, {
        folder: null,
        resume: false,
        ...(callbacks ? { callbacks: callbacks } : {}),
      }),
      validation: null,
    });
    const told = await evaluateExamples(model, examples.report, "test", runtimeConfig);
    const like = await evaluateExamples(model, examples.selection ?? examples.train, "validation", runtimeConfig);
    return { score: told.metrics.matthews!, learnt: like.metrics.matthews! };
  } finally {
    free(model.weights);
  }
}

export function createProbeAnalysis(data: ProbeData): Analysis<ProbeData> {
  return { name: "probe", schema: probeSchema, data, meaning: summarizeProbes(data), figure: createProbeFigure(data) };
}

const formatProbeName = (probe: MsgsProbe): string =>
  probe
    .replace("_lexical_content_the", " against a word (the)")
    .replace("_length", " against length")
    .replace("control_raising", "control or raising")
    .replace("syntactic_category", "syntactic category");

function averageOverSeeds(runs: readonly ProbeRun[]): { probe: MsgsProbe; method: string; score: number }[] {
  const probes = [...new Set(runs.map(({ probe }) => probe))];
  const methods = [...new Set(runs.map(({ method }) => method))];
  return probes.flatMap((probe) =>
    methods.map((method) => ({
      probe,
      method,
      score: mean(runs.filter((run) => run.probe === probe && run.method === method).map(({ score }) => score)),
    })),
  );
}

function summarizeProbes({ runs }: ProbeData): string {
  const groups = averageOverSeeds(runs);
  const leaning = (score: number): string => (score > 0.1 ? "linguistic" : score < -0.1 ? "surface" : "neither");
  const each = [...new Set(groups.map(({ probe }) => probe))].map((probe) => {
    const own = groups.filter((group) => group.probe === probe);
    return `${formatProbeName(probe)}: ${own.map(({ method, score }) => `${method} ${formatNumber(score, 2)} (${leaning(score)})`).join(", ")}`;
  });
  return `Mean Matthews score, and the feature leant on. ${each.join("; ")}.`;
}

function createProbeFigure({ model, runs }: ProbeData): Figure {
  const probes = [...new Set(runs.map(({ probe }) => probe))];
  const methods = [...new Set(runs.map(({ method }) => method))];
  const seeds = Math.max(...runs.map(({ seed }) => seed)) + 1;
  const panels = probes.map((probe) => {
    // Seeds stand side by side, so that equal scores stay visible.
    const points = runs
      .filter((run) => run.probe === probe)
      .map(({ method, seed, score }) => {
        const at = methods.indexOf(method);
        return { x: at + (seeds > 1 ? (0.4 * seed) / (seeds - 1) - 0.2 : 0), y: score, color: getColor(at) };
      });
    const means = averageOverSeeds(runs)
      .filter((group) => group.probe === probe)
      .map(({ method, score }) => {
        const at = methods.indexOf(method);
        return { x1: at - 0.3, x2: at + 0.3, y: score, color: getColor(at) };
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
      y: { label: "Matthews score", domain: [-1, 1], grid: true, ticks: 5 },
      marks: [
        Plot.ruleY([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
        Plot.ruleY(means, { x1: "x1", x2: "x2", y: "y", stroke: "color", strokeWidth: 2 }),
        Plot.dot(points, { x: "x", y: "y", fill: "color", fillOpacity: 0.75, r: 4 }),
      ],
    });
  });
  return {
    title: "Which feature is learnt",
    caption: `${model} fine-tuned on texts where a linguistic and a surface feature agree, tested where they disagree: 1 follows the linguistic feature, -1 the surface. Every point is a run, a bar is the mean.`,
    panels,
    columns: 2,
  };
}
