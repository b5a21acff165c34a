import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createFileError } from "../files.js";
import { free, keep, noGrad, type Tensor } from "../tensor/index.js";
import { type CheckpointState, CheckpointStore, restoreTensors } from "./checkpoint.js";
import { checkBestModelMetric, createUnknownMetricError, evaluateModel, isBetter } from "./evaluate.js";
import { toHostBatch } from "./host-batch.js";
import { Interrupted, type TrainingJob, type TrainResult } from "./job.js";
import type { MethodStack } from "./method-stack.js";
import { type PreparedTraining, prepareTraining } from "./prepare-training.js";
import { computeLearningRateFactor } from "./schedule.js";
import { TrainingLogger } from "./training-logger.js";
import type { NamedTensors } from "./training-method.js";
import { computeRelativeDistances } from "./weight-distance.js";

/** Fine-tunes a model in place: afterwards its weights are the chosen checkpoint's. */
export async function train(job: TrainingJob): Promise<TrainResult> {
  const trainer = await Trainer.create(job);
  try {
    return await trainer.run();
  } finally {
    trainer.close();
  }
}

const initialState: CheckpointState = {
  format: 1,
  step: 0,
  epoch: 0,
  inEpoch: 0,
  evaluated: 0,
  best: null,
  waited: 0,
  eventBytes: 0,
  timingBytes: 0,
};

/** Reading an update's numbers waits for the device: a GPU is asked now and then only. */
const gpuLoggingSteps = 20;

class Trainer {
  readonly #job: TrainingJob;
  readonly #training: PreparedTraining;
  readonly #checkpoints: CheckpointStore | null;
  readonly #logger: TrainingLogger;
  #state: CheckpointState;
  /** The batches of the epoch under way. */
  #updates: { epoch: number; batches: Int32Array[][] } | null = null;
  /** Without a folder the best weights wait in memory. */
  #bestWeights: NamedTensors | null = null;

  static async create(job: TrainingJob): Promise<Trainer> {
    if (job.validation)
      checkBestModelMetric(
        job.settings.metricForBestModel,
        job.methods.some((layer) => layer.extraMetrics),
      );
    const checkpoints = job.folder === null ? null : createCheckpointStore(job.folder);
    const state =
      (await checkpoints?.findNewest(job.resume, (message) => job.callbacks?.onWarning?.(message))) ?? initialState;
    const restored = state.step > 0 && checkpoints ? await checkpoints.readTensors(state.step, "buffers") : null;
    const training = await prepareTraining(job, restored);
    try {
      // Copied now: in a resumed run the weights are restored next.
      if (job.validation && job.settings.logWeightDistance) training.run.getPretrainedWeights();
      if (state.step > 0 && checkpoints) {
        const { run, context } = training;
        restoreTensors(run.parameters, await checkpoints.readTensors(state.step, "weights"), "parameter");
        restoreTensors(context.optimizer.moments(), await checkpoints.readTensors(state.step, "moments"), "moment");
        restoreTensors(collectBuffers(context.stack), restored ?? new Map(), "buffer");
        noGrad(() => context.optimizer.step.fill_(state.step));
      }
      return new Trainer(job, training, checkpoints, state);
    } catch (error) {
      training.close();
      throw error;
    }
  }

  private constructor(
    job: TrainingJob,
    training: PreparedTraining,
    checkpoints: CheckpointStore | null,
    state: CheckpointState,
  ) {
    this.#job = job;
    this.#training = training;
    this.#checkpoints = checkpoints;
    this.#state = state;
    this.#logger = new TrainingLogger(job.folder, state, (event) => job.callbacks?.onEvent?.(event));
  }

  async run(): Promise<TrainResult> {
    const { settings, signal, maxSteps: stopAfter, callbacks: watch } = this.#job;
    const { totalSteps: updates, parameters } = this.#training.run;
    const total = Math.min(updates, stopAfter ?? Number.POSITIVE_INFINITY);
    const started = performance.now();
    await watch?.onStart?.({ step: this.#state.step, steps: updates, parameters: countParameters(parameters) });
    // A run that was stopped in the middle of an evaluation does it over.
    await this.#evaluateIfDue();
    while (this.#state.step < total && !this.#shouldStopEarly()) {
      this.#runStep();
      // Signals, timers and sockets get their turn here; a Ctrl-C waits for one update at most.
      await new Promise(setImmediate);
      if (signal?.aborted) await this.#interrupt();
      await this.#evaluateIfDue();
      if (this.#state.step % settings.saveSteps === 0) await this.#checkpoint();
    }
    await this.#checkpoint();
    const bestStep = await this.#loadBest();
    const { step, epoch, best } = this.#state;
    return {
      steps: step,
      epochs: epoch,
      bestStep,
      validation: best?.metrics ?? null,
      seconds: (performance.now() - started) / 1000,
    };
  }

  /** One update, with its events and its place in the data. */
  #runStep(): void {
    const { settings, train, model, callbacks: watch, deviceConfig: placement } = this.#job;
    const { epoch, inEpoch, step: done } = this.#state;
    const { run, runner, context, stepsPerEpoch: updatesPerEpoch } = this.#training;
    if (this.#updates?.epoch !== epoch) this.#updates = { epoch, batches: this.#training.getEpochBatches(epoch) };
    const part = computeLearningRateFactor(settings, done, run.totalSteps, epoch);
    const rate = settings.learningRate * part;
    const started = performance.now();
    const indices = this.#updates.batches[inEpoch] as Int32Array[];
    const hosts = indices.map((batch) => toHostBatch(train, batch, model.tokenizer.special.padId, placement.device));
    context.optimizer.setLearningRateFactor(part);
    const scalars = runner.runStep(done, hosts);
    const step = done + 1;
    const waiting = this.#logger.enqueue({ step, epoch, rate, scalars });
    if (waiting >= (settings.loggingSteps ?? (placement.device === "cpu" ? 1 : gpuLoggingSteps))) this.#logger.flush();
    const seconds = (performance.now() - started) / 1000;
    const sum = (of: (host: (typeof hosts)[number]) => number): number =>
      hosts.reduce((total, host) => total + of(host), 0);
    const examples = sum((host) => host.padded.batchSize);
    this.#logger.writeTiming({
      step,
      seconds,
      examples,
      tokens: sum((host) => host.padded.numTokens),
      computed: sum((host) => host.padded.batchSize * host.padded.sequenceLength),
    });
    const epochEnds = inEpoch + 1 === updatesPerEpoch;
    this.#state = { ...this.#state, step, epoch: epochEnds ? epoch + 1 : epoch, inEpoch: epochEnds ? 0 : inEpoch + 1 };
    watch?.onStep?.({
      step,
      totalSteps: run.totalSteps,
      epoch,
      examples,
      seconds,
      loss: this.#logger.loss,
      learningRate: rate,
    });
  }

  /** Evaluates on the selection split where the step calls for it, and once only. */
  async #evaluateIfDue(): Promise<void> {
    const { validation: selection, settings, callbacks: watch, model, deviceConfig: placement, signal } = this.#job;
    const { step, best, evaluated, waited } = this.#state;
    const every = settings.evalSteps ?? this.#training.stepsPerEpoch;
    if (!selection || evaluated === step || (step % every !== 0 && step !== this.#training.run.totalSteps)) return;
    this.#logger.flush();
    const onProgress = (done: number, total: number): void => watch?.onProgress?.("select", done, total);
    const metrics = await evaluateModel(model, this.#training.context, selection.items, placement, {
      signal,
      onProgress,
    }).catch((error) => (error instanceof Interrupted ? this.#interrupt() : Promise.reject(error)));
    const value = metrics[settings.metricForBestModel];
    if (value === undefined) throw createUnknownMetricError(settings.metricForBestModel, Object.keys(metrics));
    const better = best === null || isBetter(settings.metricForBestModel, value, best.value);
    this.#state = {
      ...this.#state,
      evaluated: step,
      best: better ? { step, value, metrics } : best,
      waited: better ? 0 : waited + 1,
    };
    const distance = settings.logWeightDistance
      ? { distance: computeRelativeDistances(model.weights, this.#training.run.getPretrainedWeights()) }
      : {};
    this.#logger.writeEvent({ step, evaluation: metrics, best: better, ...distance });
    watch?.onEvaluation?.(step, metrics, better);
    if (better) await this.#checkpoint();
  }

  #shouldStopEarly(): boolean {
    const { earlyStoppingPatience: patience } = this.#job.settings;
    return patience !== null && this.#state.waited >= patience;
  }

  async #checkpoint(): Promise<void> {
    this.#logger.flush();
    if (!this.#checkpoints) return this.#rememberBest();
    this.#state = { ...this.#state, ...this.#logger.sync() };
    const { run, optimizer, stack } = this.#training.context;
    await this.#checkpoints.save(this.#state, {
      weights: run.parameters,
      moments: optimizer.moments(),
      buffers: collectBuffers(stack),
    });
    await this.#checkpoints.prune(this.#job.settings.saveTotalLimit);
  }

  #rememberBest(): void {
    if (this.#state.best?.step !== this.#state.step) return;
    if (this.#bestWeights) free(this.#bestWeights);
    this.#bestWeights = noGrad(
      () =>
        new Map([...this.#job.model.weights].map(([name, tensor]): [string, Tensor] => [name, keep(tensor.clone())])),
    );
  }

  /** Puts the best weights into the model, where something was selected by. */
  async #loadBest(): Promise<number> {
    const { best, step } = this.#state;
    if (best === null || best.step === step) return step;
    const saved = this.#checkpoints ? await this.#checkpoints.readTensors(best.step, "weights") : this.#bestWeights;
    if (saved) restoreTensors(this.#job.model.weights, saved, "parameter");
    this.#bestWeights = null;
    return best.step;
  }

  async #interrupt(): Promise<never> {
    await this.#checkpoint();
    const saved = this.#checkpoints ? "; all of it is saved" : "";
    throw new Interrupted(`stopped after step ${this.#state.step} of ${this.#training.run.totalSteps}${saved}`);
  }

  close(): void {
    if (this.#bestWeights) free(this.#bestWeights);
    this.#logger.close();
    this.#training.close();
  }
}

function createCheckpointStore(folder: string): CheckpointStore {
  const path = join(folder, "checkpoints");
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw createFileError(error, path, "make the folder");
  }
  return new CheckpointStore(path);
}

/** Buffers of all layers under their own names. */
function collectBuffers(stack: MethodStack): NamedTensors {
  return new Map(stack.methods.flatMap((layer) => [...(layer.state?.().buffers ?? [])]));
}

/** Numbers in all tensors together. */
function countParameters(named: NamedTensors): number {
  return [...named.values()].reduce((sum, tensor) => sum + tensor.numel, 0);
}
