import { Interrupted, UserError } from "../base/errors.js";
import { reportProgress, warn } from "../base/events.js";
import { isHeadParameter } from "../models/index.js";
import { AdamW, mapWeights, type Weights } from "../nn/index.js";
import { free, keep, noGrad, Rng, requirePrecision, scope, type Tensor } from "../tensor/index.js";
import { toBatch, toHostBatch } from "./batch-transfer.js";
import { createEpochBatches } from "./batches.js";
import { MethodStack } from "./method-stack.js";
import { LowPrecisionWeights } from "./mixed-precision.js";
import { chooseUpdate, type UpdateStrategy } from "./parameter-update.js";
import { createRandomStreams } from "./random-streams.js";
import { computeRows, type Ranks, singleRank } from "./ranks.js";
import { createParameterGroups } from "./standard-fine-tuning.js";
import { type BatchTraining, StepBatch } from "./step-batch.js";
import { countLabels, createTaskLoss, resolveClassWeights, toWeightsTensor } from "./task-loss.js";
import type { NamedTensors, TrainingContext, TrainingJob, TrainingMethod } from "./training-method.js";

/** One training in progress, with what methods do not see. */
export interface ActiveTraining extends BatchTraining {
  readonly optimizer: AdamW;
  readonly update: UpdateStrategy;
  close(): void;
}

/** In a dry run, `averageOverBatches` visits only these batches. */
const dryRunBatches = 1;

export async function createTrainingContext(
  job: TrainingJob,
  {
    ranks = singleRank,
    restoredBuffers = null,
  }: {
    readonly ranks?: Ranks;
    readonly restoredBuffers?: NamedTensors | null;
  } = {},
): Promise<ActiveTraining> {
  const { model, settings, deviceConfig } = job;
  if (deviceConfig.device === "cpu" && deviceConfig.computeDtype === "bfloat16") requirePrecision("bf16");
  const stack = new MethodStack(job.methods);
  stack.checkCompatibility(job);
  const rng = new Rng(job.seed);
  const parameters = new Map<string, Tensor>(model.weights);
  const preparedMethods: TrainingMethod[] = [];
  let pretrainedWeights: Weights | null = null;
  let optimizer: AdamW | null = null;
  let frozen: Tensor[] = [];
  const getEpochBatches = (epoch: number): Int32Array[][] => createEpochSteps(job, rng.fork("epoch", epoch));
  const stepsPerEpoch = job.dryRun?.stepsPerEpoch ?? getEpochBatches(0).length;

  const classWeights = createClassWeights(job);
  const training: BatchTraining & Pick<ActiveTraining, "close"> = {
    job,
    ranks,
    rng,
    streams: createRandomStreams(rng, deviceConfig.device),
    stack,
    parameters,
    lowPrecisionWeights:
      deviceConfig.computeDtype === "float32" ? null : new LowPrecisionWeights(model, deviceConfig.computeDtype),
    taskLoss: createTaskLoss(classWeights),
    stepsPerEpoch,
    totalSteps: Math.max(1, Math.round(settings.epochs * stepsPerEpoch)),
    restoredBuffers,
    getEpochBatches,
    getPretrainedWeights() {
      // Methods first call this in `prepare`, when the weights are still the pre-trained ones.
      pretrainedWeights ??= cloneWeights(model.weights);
      return pretrainedWeights;
    },
    loadSubstitutions: () => loadSubstitutions(job),
    averageOverBatches: (sums, visit, label) => averageOverBatches(training, sums, visit, label),
    computeRows: (items, compute) => computeRows(ranks, items, compute),
    reportProgress(label, done, total) {
      reportProgress(job, label, done, total);
      // Several processes only stop together, after a step.
      if (job.signal?.aborted && ranks.size === 1) throw new Interrupted("Stopped before the first step.");
    },
    warn: (message) => warn(job, message),
    close() {
      optimizer?.dispose();
      if (classWeights) free(classWeights);
      training.lowPrecisionWeights?.dispose();
      for (const tensor of frozen) tensor.requiresGrad_();
      if (pretrainedWeights) free(pretrainedWeights);
      for (const method of preparedMethods) freeState(method.state?.() ?? {});
    },
  };
  try {
    frozen = await prepareMethods(training, parameters, preparedMethods);
    const { adamBeta1: beta1, adamBeta2: beta2, adamEpsilon: epsilon, adamEpsilonMode: epsilonMode } = settings;
    const groups = createParameterGroups(parameters, new Set(model.weights.keys()), settings);
    optimizer = new AdamW(parameters, groups, { beta1, beta2, epsilon, epsilonMode });
    const { lowPrecisionWeights } = training;
    const update = chooseUpdate({ job, ranks, stack, optimizer, lowPrecisionWeights });
    return { ...training, optimizer, update };
  } catch (error) {
    training.close();
    throw error;
  }
}

/**
 * Prepares the methods, adds their parameters and removes the frozen ones, which are returned.
 * Those that are prepared are added to `prepared`, so that an error frees them.
 */
async function prepareMethods(
  training: BatchTraining,
  parameters: Map<string, Tensor>,
  prepared: TrainingMethod[],
): Promise<Tensor[]> {
  const { methods } = training.stack;
  for (const method of methods) {
    await method.prepare?.(training);
    prepared.push(method);
    for (const [name, tensor] of method.state?.().parameters ?? []) parameters.set(name, tensor);
  }
  const frozenNames = methods.flatMap((method) => [...(method.state?.().frozen ?? [])]);
  for (const name of frozenNames) parameters.delete(name);
  // Autograd then keeps no activations for the gradients of these weights.
  return frozenNames.map((name) => (training.job.model.weights.get(name) as Tensor).requiresGrad_(false));
}

function freeState({ parameters, buffers }: ReturnType<NonNullable<TrainingMethod["state"]>>): void {
  free([...(parameters?.values() ?? []), ...(buffers?.values() ?? [])]);
}

function cloneWeights(weights: Weights): Weights {
  return noGrad(() => scope(() => keep(mapWeights(weights, (tensor) => tensor.detach().clone()))));
}

function createClassWeights({ task: { labels }, train, settings, deviceConfig }: TrainingJob): Tensor | null {
  const examples = train.items.map(({ example }) => example);
  const weights = resolveClassWeights(settings, labels, countLabels(examples, labels.length));
  return weights && keep(toWeightsTensor(weights, deviceConfig.device));
}

function createEpochSteps({ train, task, settings }: TrainingJob, rng: Rng): Int32Array[][] {
  const size = settings.gradientAccumulationSteps;
  const batches = createEpochBatches(train, task.labels.length, settings, rng);
  return Array.from({ length: Math.ceil(batches.length / size) }, (_, i) => batches.slice(i * size, (i + 1) * size));
}

async function loadSubstitutions(job: TrainingJob): ReturnType<TrainingContext["loadSubstitutions"]> {
  if (job.loadSubstitutions) return job.loadSubstitutions();
  throw new UserError(
    'substitutions: this method needs word substitutions. Set substitutions to "wordnet" or to a JSON file ' +
      "(--tokenization word --substitutions wordnet).",
  );
}

async function averageOverBatches(
  training: BatchTraining,
  ...[sums, visit, label]: Parameters<TrainingContext["averageOverBatches"]>
): Promise<void> {
  const { job, ranks } = training;
  const { batchSize } = job.settings;
  const count = job.train.items.length;
  const positions = Int32Array.from(job.train.items.keys());
  // The methods may not be prepared yet, so the batches do not use them.
  const bareStack = new MethodStack([]);
  const end = job.dryRun ? Math.min(count, dryRunBatches * batchSize) : count;
  for (let start = 0; start < end; start += batchSize) {
    // Each process visits other batches.
    if ((start / batchSize) % ranks.size !== ranks.rank) continue;
    const host = toHostBatch(job, positions.slice(start, start + batchSize));
    scope(() => {
      const batch = toBatch({ ...job, methods: [] }, host);
      visit(new StepBatch(training, batch, start / batchSize, { stack: bareStack }));
    });
    await new Promise(setImmediate);
    training.reportProgress(label, Math.min(start + batchSize, count), count);
  }
  ranks.average_([...sums.values()]);
  noGrad(() => {
    for (const sum of sums.values()) sum.div_(Math.ceil(end / batchSize) / ranks.size);
  });
}

/** The trained tensors of the model itself, without the methods' own parameters. */
export function getModelParameters({ job, parameters }: TrainingContext): NamedTensors {
  return new Map([...parameters].filter(([name]) => job.model.weights.has(name) || !isHeadParameter(name)));
}

export function countParameters(parameters: NamedTensors): number {
  return [...parameters.values()].reduce((sum, tensor) => sum + tensor.numel, 0);
}
