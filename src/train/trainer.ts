import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileError } from "../files.js";
import { free, keep, noGrad, type Tensor } from "../tensor/index.js";
import { type CheckpointState, Checkpoints, restore } from "./checkpoint.js";
import { relativeDistances } from "./distance.js";
import { checkSelectBy, evaluateItems, isBetter, unknownMetric } from "./evaluate.js";
import { toHostBatch } from "./host-batch.js";
import { Interrupted, type Job, type Outcome } from "./job.js";
import type { Named } from "./layer.js";
import { openTraining, type Training } from "./open.js";
import { Recorder } from "./recorder.js";
import { ratePart } from "./schedule.js";
import type { Stack } from "./stack.js";

/** Fine-tunes a model in place: afterwards its weights are the chosen checkpoint's. */
export async function train(job: Job): Promise<Outcome> {
  const trainer = await Trainer.open(job);
  try {
    return await trainer.run();
  } finally {
    trainer.close();
  }
}

const startState: CheckpointState = {
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
const gpuLogEvery = 20;

class Trainer {
  readonly #job: Job;
  readonly #training: Training;
  readonly #checkpoints: Checkpoints | null;
  readonly #recorder: Recorder;
  #state: CheckpointState;
  /** The batches of the epoch under way. */
  #updates: { epoch: number; batches: Int32Array[][] } | null = null;
  /** Without a folder the best weights wait in memory. */
  #bestWeights: Named | null = null;

  static async open(job: Job): Promise<Trainer> {
    if (job.selection)
      checkSelectBy(
        job.settings.selectBy,
        job.layers.some((layer) => layer.evaluate),
      );
    const checkpoints = job.folder === null ? null : openCheckpoints(job.folder);
    const state = (await checkpoints?.newest(job.resume, (message) => job.watch?.onNotice?.(message))) ?? startState;
    const restored = state.step > 0 && checkpoints ? await checkpoints.read(state.step, "buffers") : null;
    const training = await openTraining(job, restored);
    try {
      // Copied now: in a resumed run the weights are restored next.
      if (job.selection && job.settings.logDistance) training.run.pretrained();
      if (state.step > 0 && checkpoints) {
        const { run, context } = training;
        restore(run.parameters, await checkpoints.read(state.step, "weights"), "parameter");
        restore(context.optimizer.moments(), await checkpoints.read(state.step, "moments"), "moment");
        restore(buffersOf(context.stack), restored ?? new Map(), "buffer");
        noGrad(() => context.optimizer.step.fill_(state.step));
      }
      return new Trainer(job, training, checkpoints, state);
    } catch (error) {
      training.close();
      throw error;
    }
  }

  private constructor(job: Job, training: Training, checkpoints: Checkpoints | null, state: CheckpointState) {
    this.#job = job;
    this.#training = training;
    this.#checkpoints = checkpoints;
    this.#state = state;
    this.#recorder = new Recorder(job.folder, state, (event) => job.watch?.onEvent?.(event));
  }

  async run(): Promise<Outcome> {
    const { settings, signal, stopAfter, watch } = this.#job;
    const { updates, parameters } = this.#training.run;
    const total = Math.min(updates, stopAfter ?? Number.POSITIVE_INFINITY);
    const started = performance.now();
    await watch?.onStart?.({ step: this.#state.step, steps: updates, parameters: sizeOf(parameters) });
    // A run that was stopped in the middle of an evaluation does it over.
    await this.#evaluateIfDue();
    while (this.#state.step < total && !this.#outOfPatience()) {
      this.#update();
      // Signals, timers and sockets get their turn here; a Ctrl-C waits for one update at most.
      await new Promise(setImmediate);
      if (signal?.aborted) await this.#interrupt();
      await this.#evaluateIfDue();
      if (this.#state.step % settings.checkpointEvery === 0) await this.#checkpoint();
    }
    await this.#checkpoint();
    const chosenStep = await this.#loadChosen();
    const { step, epoch, best } = this.#state;
    return { steps: step, epochs: epoch, chosenStep, selection: best?.metrics ?? null, seconds: (performance.now() - started) / 1000 };
  }

  /** One update, with its events and its place in the data. */
  #update(): void {
    const { settings, train, model, watch, placement } = this.#job;
    const { epoch, inEpoch, step: done } = this.#state;
    const { run, runner, context, updatesPerEpoch } = this.#training;
    if (this.#updates?.epoch !== epoch) this.#updates = { epoch, batches: this.#training.updatesOf(epoch) };
    const part = ratePart(settings, done, run.updates, epoch);
    const rate = settings.learningRate * part;
    const started = performance.now();
    const indices = this.#updates.batches[inEpoch] as Int32Array[];
    const hosts = indices.map((batch) => toHostBatch(train, batch, model.tokenizer.special.pad, placement.device));
    context.optimizer.setRate(part);
    const scalars = runner.update(done, hosts);
    const step = done + 1;
    const waiting = this.#recorder.hold({ step, epoch, rate, scalars });
    if (waiting >= (settings.logEvery ?? (placement.device === "cpu" ? 1 : gpuLogEvery))) this.#recorder.flush();
    const seconds = (performance.now() - started) / 1000;
    const sum = (of: (host: (typeof hosts)[number]) => number): number => hosts.reduce((total, host) => total + of(host), 0);
    const examples = sum((host) => host.padded.rows);
    this.#recorder.time({
      step,
      seconds,
      examples,
      tokens: sum((host) => host.padded.tokens),
      computed: sum((host) => host.padded.rows * host.padded.length),
    });
    const epochEnds = inEpoch + 1 === updatesPerEpoch;
    this.#state = { ...this.#state, step, epoch: epochEnds ? epoch + 1 : epoch, inEpoch: epochEnds ? 0 : inEpoch + 1 };
    watch?.onStep?.({ step, steps: run.updates, epoch, examples, seconds, loss: this.#recorder.loss, rate });
  }

  /** Evaluates on the selection split where the step calls for it, and once only. */
  async #evaluateIfDue(): Promise<void> {
    const { selection, settings, watch, model, placement, signal } = this.#job;
    const { step, best, evaluated, waited } = this.#state;
    const every = settings.evaluateEvery ?? this.#training.updatesPerEpoch;
    if (!selection || evaluated === step || (step % every !== 0 && step !== this.#training.run.updates)) return;
    this.#recorder.flush();
    const onProgress = (done: number, total: number): void => watch?.onWork?.("select", done, total);
    const metrics = await evaluateItems(model, this.#training.context, selection.items, placement, { signal, onProgress }).catch((error) =>
      error instanceof Interrupted ? this.#interrupt() : Promise.reject(error),
    );
    const value = metrics[settings.selectBy];
    if (value === undefined) throw unknownMetric(settings.selectBy, Object.keys(metrics));
    const better = best === null || isBetter(settings.selectBy, value, best.value);
    this.#state = { ...this.#state, evaluated: step, best: better ? { step, value, metrics } : best, waited: better ? 0 : waited + 1 };
    const distance = settings.logDistance ? { distance: relativeDistances(model.weights, this.#training.run.pretrained()) } : {};
    this.#recorder.write({ step, evaluation: metrics, best: better, ...distance });
    watch?.onEvaluation?.(step, metrics, better);
    if (better) await this.#checkpoint();
  }

  #outOfPatience(): boolean {
    const { patience } = this.#job.settings;
    return patience !== null && this.#state.waited >= patience;
  }

  async #checkpoint(): Promise<void> {
    this.#recorder.flush();
    if (!this.#checkpoints) return this.#rememberBest();
    this.#state = { ...this.#state, ...this.#recorder.sync() };
    const { run, optimizer, stack } = this.#training.context;
    await this.#checkpoints.save(this.#state, { weights: run.parameters, moments: optimizer.moments(), buffers: buffersOf(stack) });
    await this.#checkpoints.prune(this.#job.settings.keepCheckpoints);
  }

  #rememberBest(): void {
    if (this.#state.best?.step !== this.#state.step) return;
    if (this.#bestWeights) free(this.#bestWeights);
    this.#bestWeights = noGrad(
      () => new Map([...this.#job.model.weights].map(([name, tensor]): [string, Tensor] => [name, keep(tensor.clone())])),
    );
  }

  /** Puts the best weights into the model, where something was selected by. */
  async #loadChosen(): Promise<number> {
    const { best, step } = this.#state;
    if (best === null || best.step === step) return step;
    const saved = this.#checkpoints ? await this.#checkpoints.read(best.step, "weights") : this.#bestWeights;
    if (saved) restore(this.#job.model.weights, saved, "parameter");
    this.#bestWeights = null;
    return best.step;
  }

  async #interrupt(): Promise<never> {
    await this.#checkpoint();
    const saved = this.#checkpoints ? "; all of it is saved" : "";
    throw new Interrupted(`stopped after step ${this.#state.step} of ${this.#training.run.updates}${saved}`);
  }

  close(): void {
    if (this.#bestWeights) free(this.#bestWeights);
    this.#recorder.close();
    this.#training.close();
  }
}

function openCheckpoints(folder: string): Checkpoints {
  const path = join(folder, "checkpoints");
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw fileError(error, path, "make the folder");
  }
  return new Checkpoints(path);
}

/** Buffers of all layers under their own names. */
function buffersOf(stack: Stack): Named {
  return new Map(stack.layers.flatMap((layer) => [...(layer.state?.().buffers ?? [])]));
}

/** Numbers in all tensors together. */
function sizeOf(named: Named): number {
  return [...named.values()].reduce((sum, tensor) => sum + tensor.elements, 0);
}
