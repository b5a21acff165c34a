import { Interrupted, UserError } from "../base/errors.js";
import { warn } from "../base/events.js";
import { areFinite, mapWeights } from "../nn/index.js";
import { free, keep, noGrad } from "../tensor/index.js";
import { toHostBatch } from "./batch-transfer.js";
import { CheckpointStore, restoreTensors } from "./checkpoint.js";
import type { CheckpointState } from "./checkpoint-state.js";
import {
  checkBestModelMetric,
  createUnknownMetricError,
  evaluateModel,
  getMetricDirection,
  isBetterModel,
  listValidationMetrics,
} from "./evaluate.js";
import type { MethodStack } from "./method-stack.js";
import { type Ranks, selectShare, singleRank } from "./ranks.js";
import { computeLearningRateFactor } from "./settings.js";
import { createStepRunner, type StepRunner } from "./step-runner.js";
import { type ActiveTraining, countParameters, createTrainingContext } from "./training-context.js";
import { createDivergenceError, TrainingLogger } from "./training-logger.js";
import type { NamedTensors, TrainingContext, TrainingJob, TrainResult } from "./training-method.js";
import { computeRelativeDistances } from "./weight-distance.js";

/** Fine-tunes a model in place and ends with the best checkpoint. Only process 0 has files. */
export async function train(job: TrainingJob, ranks: Ranks = singleRank): Promise<TrainResult> {
  const trainer = await Trainer.create(job, ranks);
  try {
    return await trainer.run();
  } finally {
    trainer.close();
  }
}

const initialState: CheckpointState = {
  step: 0,
  epoch: 0,
  stepInEpoch: 0,
  lastEvaluatedStep: 0,
  best: null,
  evaluationsSinceBest: 0,
  eventBytes: 0,
  timingBytes: 0,
};

/** Reading numbers waits for the device, so a GPU logs several steps together by default. */
const defaultLoggingSteps = { cpu: 1, gpu: 20 };

/** The fraction of the time that checkpoints may take, and the seconds between two of them at least. */
const saveTimeFraction = 0.03;
const shortestSaveInterval = 10;

class Trainer {
  readonly #job: TrainingJob;
  readonly #training: ActiveTraining;
  readonly #runner: StepRunner;
  readonly #checkpoints: CheckpointStore | null;
  readonly #logger: TrainingLogger;
  #state: CheckpointState;
  #epochBatches: { epoch: number; steps: Int32Array[][] } | null = null;
  #lastSave = { ended: performance.now(), seconds: 0 };
  /** Without checkpoints, the best weights are kept in memory. */
  #bestWeights: NamedTensors | null = null;

  static async create(job: TrainingJob, ranks: Ranks): Promise<Trainer> {
    const { settings, files, validation } = job;
    if (validation)
      checkBestModelMetric(settings.metricForBestModel, job.methods, listValidationMetrics(job, validation));
    const checkpoints = settings.saveStrategy === "no" ? null : files && new CheckpointStore(files.checkpoints);
    // The other processes continue where process 0 does.
    const [state] = ranks.exchange(
      (await checkpoints?.findNewest(job.resume, (message) => warn(job, message))) ?? initialState,
    ) as [CheckpointState];
    const buffers = checkpoints ? () => checkpoints.readTensors(state.step, "buffers") : async () => new Map();
    const restored: NamedTensors | null = state.step > 0 ? await buffers() : null;
    const training = await createTrainingContext(job, { ranks, restoredBuffers: restored });
    try {
      checkPosition(state, training);
      // Copy the pre-trained weights now: in a resumed run, the weights are restored next.
      if (validation && settings.logWeightDistance) training.getPretrainedWeights();
      if (state.step > 0 && checkpoints) {
        const { optimizer, stack } = training;
        restoreTensors(collectWeights(training), await checkpoints.readTensors(state.step, "weights"), "parameter");
        restoreTensors(optimizer.moments(), await checkpoints.readTensors(state.step, "moments"), "moment");
        restoreTensors(collectBuffers(stack), restored ?? new Map(), "buffer");
      }
      if (state.step > 0) noGrad(() => training.optimizer.step.fill_(state.step));
      const { optimizer, stack } = training;
      for (const tensors of [collectWeights(training), optimizer.moments(), collectBuffers(stack)])
        ranks.broadcast_(tensors.values());
      return new Trainer(training, checkpoints, state);
    } catch (error) {
      training.close();
      throw error;
    }
  }

  private constructor(training: ActiveTraining, checkpoints: CheckpointStore | null, state: CheckpointState) {
    const { job } = training;
    this.#job = job;
    this.#training = training;
    this.#checkpoints = checkpoints;
    this.#state = state;
    this.#runner = createStepRunner(training);
    this.#logger = new TrainingLogger(job.files, state, (entry) => job.onEvent?.({ type: "log", entry }));
  }

  async run(): Promise<TrainResult> {
    const { signal, stopAfter, onEvent } = this.#job;
    const { totalSteps, parameters } = this.#training;
    const lastStep = Math.min(totalSteps, stopAfter ?? Number.POSITIVE_INFINITY);
    onEvent?.({ type: "start", step: this.#state.step, totalSteps, parameters: countParameters(parameters) });
    // A run that was stopped during an evaluation repeats it.
    await this.#evaluateIfDue();
    while (this.#state.step < lastStep && !this.#shouldStopEarly()) {
      await this.#prepareStep();
      this.#runStep();
      // Give signals, timers and sockets a turn; Ctrl-C waits for at most one step.
      await new Promise(setImmediate);
      if (this.#training.ranks.any(signal?.aborted === true)) await this.#interrupt();
      await this.#evaluateIfDue();
      if (this.#isCheckpointDue()) await this.#saveCheckpoint();
    }
    await this.#saveCheckpoint();
    const bestStep = await this.#loadBest();
    await this.#saveAdapters();
    const { step, best } = this.#state;
    return {
      steps: step,
      bestStep,
      validation: best?.metrics ?? null,
      validationDegeneracy: best?.degeneracy ?? null,
    };
  }

  async #prepareStep(): Promise<void> {
    for (const method of this.#training.stack.methods)
      await method.beforeStep?.(this.#training, this.#state.step).catch((error: unknown) => {
        if (error instanceof Interrupted) return this.#interrupt();
        throw error;
      });
  }

  #runStep(): void {
    const { settings, onEvent, deviceConfig, train } = this.#job;
    const { epoch, stepInEpoch, step: stepIndex } = this.#state;
    const { totalSteps, stepsPerEpoch, optimizer } = this.#training;
    if (this.#epochBatches?.epoch !== epoch)
      this.#epochBatches = { epoch, steps: this.#training.getEpochBatches(epoch) };
    const factor = computeLearningRateFactor(settings, stepIndex, totalSteps, epoch);
    const learningRate = settings.learningRate * factor;
    const started = performance.now();
    const { ranks } = this.#training;
    const waitedBefore = ranks.waitedSeconds;
    // All processes draw the same batches and pad to the same length, for the same CUDA graphs.
    const hostBatches = this.#epochBatches.steps[stepInEpoch]!.map((batch) => {
      const longest = batch.reduce((max, index) => Math.max(max, train.items[index]!.encoding.ids.length), 0);
      return toHostBatch(this.#job, selectShare(batch, ranks), { epoch, longest });
    });
    optimizer.setLearningRateFactor(factor);
    const scalars = this.#runner.runStep(stepIndex, hostBatches);
    const step = stepIndex + 1;
    const pending = this.#logger.enqueue({ step, epoch, learningRate, scalars });
    const loggingSteps = defaultLoggingSteps[deviceConfig.device === "cpu" ? "cpu" : "gpu"];
    if (pending >= (settings.loggingSteps ?? loggingSteps)) this.#logger.flush();
    const seconds = (performance.now() - started) / 1000;
    // The shares of all processes have the same size.
    const sum = (count: (host: (typeof hostBatches)[number]) => number): number =>
      ranks.size * hostBatches.reduce((total, host) => total + count(host), 0);
    const examples = sum((host) => host.items.length);
    this.#logger.writeTiming({
      step,
      seconds,
      examples,
      tokens: sum((host) => host.padded.numTokens),
      computed: sum((host) => host.items.length * host.padded.sequenceLength),
      ...(ranks.size > 1 && { waited: ranks.waitedSeconds - waitedBefore }),
    });
    const isEpochEnd = stepInEpoch + 1 === stepsPerEpoch;
    const position = isEpochEnd ? { epoch: epoch + 1, stepInEpoch: 0 } : { epoch, stepInEpoch: stepInEpoch + 1 };
    this.#state = { ...this.#state, step, ...position };
    const { loss } = this.#logger;
    onEvent?.({ type: "step", step, totalSteps, epoch, examples, seconds, loss, learningRate });
  }

  async #evaluateIfDue(): Promise<void> {
    const { validation, settings, onEvent, model } = this.#job;
    const { step, best, lastEvaluatedStep, evaluationsSinceBest } = this.#state;
    if (!validation || lastEvaluatedStep === step || !this.#isEvaluationStep(step)) return;
    this.#logger.flush();
    this.#checkWeights();
    const { metrics, degeneracy } = await evaluateModel(this.#training, validation).catch((error) =>
      error instanceof Interrupted ? this.#interrupt() : Promise.reject(error),
    );
    const value = metrics[settings.metricForBestModel];
    if (value === undefined) throw createUnknownMetricError(settings.metricForBestModel, Object.keys(metrics));
    const { metricForBestModel: metric, loadBestModelAtEnd } = settings;
    const direction = getMetricDirection(metric, this.#job.methods);
    // Without a best model, every evaluation replaces the one before, so the last one counts.
    const improved =
      best === null || !loadBestModelAtEnd || isBetterModel(metric, { value, degeneracy }, best, direction);
    this.#state = {
      ...this.#state,
      lastEvaluatedStep: step,
      best: improved ? { step, value, metrics, degeneracy } : best,
      evaluationsSinceBest: improved ? 0 : evaluationsSinceBest + 1,
    };
    const distance = settings.logWeightDistance
      ? { distance: computeRelativeDistances(model.weights, this.#training.getPretrainedWeights()) }
      : {};
    this.#logger.writeEvent({
      step,
      evaluation: metrics,
      best: improved,
      ...distance,
      ...(degeneracy !== null && { degeneracy }),
    });
    onEvent?.({ type: "evaluation", step, metrics, isBest: improved });
    if (improved) await this.#saveCheckpoint();
  }

  #isEvaluationStep(step: number): boolean {
    const { evalSteps, evalEpochs } = this.#job.settings;
    const { stepsPerEpoch, totalSteps } = this.#training;
    if (step === totalSteps) return true;
    return evalEpochs === null ? step % (evalSteps ?? stepsPerEpoch) === 0 : evalEpochs.includes(step / stepsPerEpoch);
  }

  #shouldStopEarly(): boolean {
    const { earlyStoppingPatience } = this.#job.settings;
    return earlyStoppingPatience !== null && this.#state.evaluationsSinceBest >= earlyStoppingPatience;
  }

  /** By default, checkpoints take a small fraction of the time: one of a large model takes as long as hundreds of steps. */
  #isCheckpointDue(): boolean {
    const { saveSteps } = this.#job.settings;
    if (saveSteps !== null) return this.#state.step % saveSteps === 0;
    const { ended, seconds } = this.#lastSave;
    return performance.now() - ended > 1000 * Math.max(shortestSaveInterval, seconds / saveTimeFraction);
  }

  /** The last update can overflow after the loss and the gradient were still finite. */
  #checkWeights(): void {
    if (!areFinite([...this.#training.parameters.values()]))
      throw createDivergenceError(this.#state.step, "the weights contain NaN or infinity");
  }

  async #saveCheckpoint(): Promise<void> {
    this.#logger.flush();
    this.#checkWeights();
    // Only process 0 keeps weights.
    if (this.#training.ranks.rank > 0) return;
    if (!this.#checkpoints) return this.#keepBestInMemory();
    const started = performance.now();
    this.#state = { ...this.#state, ...this.#logger.sync() };
    const { optimizer, stack } = this.#training;
    const groups = {
      weights: collectWeights(this.#training),
      moments: optimizer.moments(),
      buffers: collectBuffers(stack),
    };
    await this.#checkpoints.save(this.#state, groups);
    await this.#checkpoints.prune(Math.max(1, this.#job.settings.saveTotalLimit));
    const ended = performance.now();
    this.#lastSave = { ended, seconds: (ended - started) / 1000 };
  }

  #keepBestInMemory(): void {
    if (this.#state.best?.step !== this.#state.step) return;
    if (this.#bestWeights) free(this.#bestWeights);
    this.#bestWeights = noGrad(() => mapWeights(collectWeights(this.#training), (tensor) => keep(tensor.clone())));
  }

  /** Loads the best weights into the model, if there was an evaluation. Returns their step. */
  async #loadBest(): Promise<number> {
    const { best, step } = this.#state;
    if (best === null || best.step === step) return step;
    const weights = collectWeights(this.#training);
    const saved = this.#checkpoints ? await this.#checkpoints.readTensors(best.step, "weights") : this.#bestWeights;
    if (saved) restoreTensors(weights, saved, "parameter");
    this.#bestWeights = null;
    this.#training.ranks.broadcast_(weights.values());
    return best.step;
  }

  async #saveAdapters(): Promise<void> {
    const { files } = this.#job;
    if (!files) return;
    for (const method of this.#training.stack.methods) await method.saveAdapter?.(this.#training, files.adapter);
  }

  async #interrupt(): Promise<never> {
    await this.#saveCheckpoint();
    const saved = this.#checkpoints ? " A checkpoint is saved." : "";
    throw new Interrupted(`Stopped after step ${this.#state.step} of ${this.#training.totalSteps}.${saved}`);
  }

  close(): void {
    if (this.#bestWeights) free(this.#bestWeights);
    this.#logger.close();
    this.#runner.dispose();
    this.#training.close();
  }
}

function checkPosition({ step, epoch, stepInEpoch }: CheckpointState, training: TrainingContext): void {
  const { stepsPerEpoch, totalSteps } = training;
  if (step <= totalSteps && stepInEpoch < stepsPerEpoch && step === epoch * stepsPerEpoch + stepInEpoch) return;
  throw new UserError(
    `The checkpoint is at step ${step} (epoch ${epoch}, step ${stepInEpoch} in it), but this run has ${totalSteps} ` +
      `steps, ${stepsPerEpoch} per epoch. It belongs to another run. Start over with a different --out.`,
  );
}

function collectWeights({ job, parameters }: TrainingContext): NamedTensors {
  return new Map([...job.model.weights, ...parameters]);
}

function collectBuffers(stack: MethodStack): NamedTensors {
  return new Map(stack.methods.flatMap((method) => [...(method.state?.().buffers ?? [])]));
}
