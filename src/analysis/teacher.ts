import { join } from "node:path";
import { z } from "zod";
import { attack } from "../actions/attack/attack.js";
import { train } from "../actions/train/train.js";
import type { AttackReference } from "../attacks/load-attack.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { formatInterval, formatPercent } from "../base/format.js";
import { countSchema, orNull, seedSchema, typedString } from "../base/validate.js";
import { loadModel } from "../models/index.js";
import { removeRunFiles } from "../runs/run-files.js";
import { dataOptions, flattenData, type RunConfigInput } from "../settings/config.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { free } from "../tensor/index.js";
import { getColor } from "./colors.js";
import { type AnalysisContext, defineAnalysis } from "./define-analysis.js";
import type { Figure } from "./figure.js";
import { loadPlot } from "./load-plot.js";

const poolings = ["cls", "mean", "pooler"] as const;
type Pooling = (typeof poolings)[number];

const accuracySchema = z.object({ accuracy: z.number(), low: z.number(), high: z.number() });

/** teacher.json: how robust a head on each of the frozen features is. */
const dataSchema = z.object({
  model: z.string(),
  task: z.string(),
  attack: z.string(),
  poolings: z.array(
    z.object({
      pooling: z.enum(poolings),
      folder: z.string(),
      examples: z.number(),
      /** Both on the attacked examples, with the 95% CI. */
      clean: accuracySchema,
      robust: accuracySchema,
    }),
  ),
});
type TeacherData = z.output<typeof dataSchema>;

const positive = z.number().positive();

/** The options that go to the run unchanged. */
const runOptions = {
  model: z.string().describe("a model folder, npm:PACKAGE or a Hugging Face model ID"),
  ...dataOptions,
  substitutions: z.string().default("wordnet").describe('word substitutions: "wordnet" or a JSON file'),
  maxTrainSamples: orNull(countSchema, "all").describe("train on a class-balanced sample"),
  maxValidationSamples: countSchema.default(1000).describe("validate on a class-balanced sample of this size"),
  maxLength: countSchema.default(128).describe("maximum tokens per text"),
  seed: seedSchema.default(0).describe("random seed"),
  ...runtimeOptions,
};

export const teacher = defineAnalysis({
  name: "teacher",
  summary: "how robust the features of a frozen encoder are: whether RIFT has something to preserve",
  unit: "steps",
  keeps: "Everything that was finished is kept.",
  options: {
    ...runOptions,
    poolings: z
      .array(z.enum(poolings))
      .min(1)
      .default([...poolings])
      .describe("features to compare"),
    beta: z.number().nonnegative().default(10).describe("weight of ascc's robust loss; 0: train on clean texts"),
    epochs: positive.default(3).describe("passes over the training data"),
    batchSize: countSchema.default(32).describe("examples per batch"),
    learningRate: positive.default(1e-3).describe("peak learning rate of the head"),
    attack: typedString<AttackReference>().default("pwws").describe("attack, such as pwws or greedy"),
    numExamples: countSchema.default(1000).describe("attack a sample of this size"),
  },
  data: dataSchema,
  async run(request, context) {
    const results: TeacherData["poolings"][number][] = [];
    const chosen = await listTrainedPoolings(request, context);
    for (const [i, pooling] of chosen.entries()) {
      const label = `${pooling} (${i + 1} of ${chosen.length})`;
      results.push(await measurePooling(request, pooling, context, nameStages(context, label)));
    }
    const { data: source } = flattenData(request);
    const data = {
      model: request.model,
      task: request.task ?? (typeof source === "string" ? source : "an array of examples"),
      attack: request.attack,
      poolings: results,
    };
    return { data, summary: summarizeTeacher(data), figure: await createTeacherFigure(data) };
  },
});
type TeacherRequest = z.output<(typeof teacher)["request"]>;

/** A pooler that is not in the checkpoint is random and says nothing about the teacher. */
async function listTrainedPoolings(request: TeacherRequest, context: AnalysisContext): Promise<Pooling[]> {
  if (!request.poolings.includes("pooler")) return request.poolings;
  const options = { labels: ["0", "1"], head: "mlp", pooling: "pooler" } as const;
  const model = await loadModel(request.model, { ...options, onEvent: context.onEvent });
  free(model.weights);
  if (!model.newlyInitialized.some((name) => name.includes("pooler"))) return request.poolings;
  const rest = request.poolings.filter((pooling) => pooling !== "pooler");
  if (rest.length === 0)
    throw new UserError(`${request.model} has no pre-trained pooler. Use --pooling cls or --pooling mean.`);
  warn(context, `${request.model} has no pre-trained pooler, so that pooling is left out.`);
  return rest;
}

/** Trains a head on the frozen encoder against ascc's adversary in its own folder, and attacks it. */
async function measurePooling(
  request: TeacherRequest,
  pooling: Pooling,
  context: AnalysisContext,
  callbacks: Callbacks,
): Promise<TeacherData["poolings"][number]> {
  const { numExamples, seed, device, precision, threads, attack: name } = request;
  const folder = join(context.out, "teacher", pooling);
  const run = await train({ ...createConfig(request, pooling), out: folder, resume: true }, callbacks);
  await removeRunFiles(run.folder, ["checkpoints"]);
  const settings = { seed, numExamples, device, precision, threads };
  const report = await attack({ model: folder, attacks: [name], resume: true, ...settings }, callbacks);
  const { accuracyUnderAttack, interval } = report.attacks[name]!;
  return {
    pooling,
    folder,
    examples: report.examples,
    clean: { accuracy: report.clean, ...report.cleanInterval },
    robust: { accuracy: accuracyUnderAttack, ...interval },
  };
}

/** Teachers have no dropout. A learning rate of 0 freezes the encoder. */
function createConfig(request: TeacherRequest, pooling: Pooling): RunConfigInput {
  const { epochs, batchSize, learningRate, beta } = request;
  return {
    ...z.object(runOptions).parse(request),
    pooling,
    head: "mlp",
    tokenization: "word",
    methods: [{ ascc: { beta } }],
    train: {
      epochs,
      batchSize,
      learningRate: 0,
      headLearningRate: learningRate,
      weightDecay: 0,
      maxGradNorm: null,
      dropout: false,
      logWeightDistance: false,
      warmupRatio: 0.1,
    },
  };
}

/** Callbacks whose stages say which pooling they belong to. */
function nameStages({ onEvent, signal }: AnalysisContext, label: string): Callbacks {
  return {
    signal,
    onEvent(event) {
      if (event.type === "progress") onEvent?.({ ...event, stage: `${label}: ${event.stage}` });
      else if (event.type === "step")
        onEvent?.({ type: "progress", stage: `${label}: train`, done: event.step, total: event.totalSteps });
      else if (event.type === "warning" || event.type === "download") onEvent?.(event);
    },
  };
}

/** Numbers without a ranking; the intervals say how sure they are. */
function summarizeTeacher({ attack: name, poolings: results }: TeacherData): string {
  const format = ({ accuracy, low, high }: TeacherData["poolings"][number]["clean"]): string =>
    `${formatPercent(accuracy)} (${formatInterval(low, high)})`;
  const each = results.map(
    ({ pooling, clean, robust }) => `${pooling} ${format(robust)} under ${name}, ${format(clean)} without attack`,
  );
  return (
    `Accuracy of a head on the frozen encoder by pooling, with 95% CIs: ${each.join("; ")}. ` +
    "RIFT preserves these features: it can help if this is not far below what ascc reaches with fine-tuning."
  );
}

async function createTeacherFigure({ model, task, attack: name, poolings: results }: TeacherData): Promise<Figure> {
  const { Plot, createCategoryAxis, plotPanel } = await loadPlot();
  const kinds = ["clean", "robust"] as const;
  const bars = results.flatMap(({ pooling, ...each }, at) =>
    kinds.map((kind, k) => ({
      pooling,
      x1: at - 0.36 + 0.38 * k,
      x2: at - 0.02 + 0.38 * k,
      center: at - 0.19 + 0.38 * k,
      value: 100 * each[kind].accuracy,
      low: 100 * each[kind].low,
      high: 100 * each[kind].high,
      color: getColor(k),
    })),
  );
  const panel = plotPanel(task, {
    width: 130 + 110 * results.length,
    height: 280,
    x: createCategoryAxis(results.map(({ pooling }) => pooling)),
    y: { label: "accuracy (%)", domain: [0, 100], grid: true, ticks: 5 },
    marks: [
      Plot.rect(bars, { x1: "x1", x2: "x2", y1: 0, y2: "value", fill: "color", fillOpacity: 0.75 }),
      Plot.ruleX(bars, { x: "center", y1: "low", y2: "high", stroke: "currentColor" }),
    ],
  });
  return {
    title: "Robustness of frozen features",
    caption:
      `A head was trained on the frozen features of ${model} against ascc's adversary. Bars: accuracy without attack ` +
      `and under ${name}; lines: 95% CI.`,
    legend: ["no attack", `under ${name}`].map((label, i) => ({ label, color: getColor(i), shape: "square" })),
    panels: [panel],
    columns: 1,
  };
}
