import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.js";
import { AdamW } from "../nn/index.js";
import { free, keep, noGrad, Rng, type Tensor } from "../tensor/index.js";
import { groupsOf } from "./base.js";
import { epochBatches } from "./batches.js";
import { type CheckpointState, Checkpoints, restore } from "./checkpoint.js";
import { evaluateItems, isBetter } from "./evaluate.js";
import { EventLog } from "./events.js";
import { toHostBatch } from "./host-batch.js";
import { Interrupted, type Job, type Outcome } from "./job.js";
import type { Named } from "./layer.js";
import { type OpenRun, openRun } from "./run.js";
import { eagerRunner, type Runner, type RunnerContext, type Scalars } from "./runner.js";
import { rateOf } from "./schedule.js";
import { Stack } from "./stack.js";
import { seededStreams } from "./streams.js";

/** Fine-tunes a model in place: afterwards its weights are the chosen checkpoint's. */
export async function train(job: Job): Promise<Outcome> {
  const trainer = await Trainer.open(job);
  try {
    return await trainer.run();
  } finally {
    trainer.close();
  }
}

const startState: CheckpointState = { format: 1, step: 0, epoch: 0, inEpoch: 0, best: null, waited: 0, eventBytes: 0, timingBytes: 0 };

class Trainer {
  readonly #job: Job;
  readonly #context: RunnerContext;
  readonly #run: OpenRun;
  readonly #runner: Runner;
  readonly #checkpoints: Checkpoints | null;
  readonly #events: EventLog | null;
  readonly #timings: EventLog | null;
  readonly #pending: { step: number; epoch: number; rate: number; scalars: Scalars }[] = [];
  readonly #updatesPerEpoch: number;
  #state: CheckpointState;

  static async open(job: Job): Promise<Trainer> {
    const stack = new Stack(job.layers);
    stack.check({ model: job.model, task: job.task, settings: job.settings });
    const checkpoints = job.folder === null ? null : new Checkpoints(join(job.folder, "checkpoints"));
    const state = (job.resume && checkpoints ? await checkpoints.newest((message) => job.watch?.onNotice?.(message)) : null) ?? startState;
    const rng = new Rng(job.seed);
    const updatesPerEpoch = Math.ceil(batchesOf(job, rng, 0).length / job.settings.accumulate);
    const updates = Math.max(1, Math.round(job.settings.epochs * updatesPerEpoch));
    const restored = state.step > 0 && checkpoints ? await checkpoints.read(state.step, "buffers") : null;
    const streams = seededStreams(rng, job.placement.device);
    const run = await openRun(job, stack, streams, rng, updates, restored);
    const { beta1, beta2, epsilon } = job.settings;
    const groups = groupsOf(run.parameters, new Set(job.model.weights.keys()), job.settings);
    const optimizer = new AdamW(run.parameters, groups, { beta1, beta2, epsilon });
    const context: RunnerContext = { run, stack, streams, optimizer, compute: job.placement.compute };
    if (state.step > 0 && checkpoints) {
      restore(run.parameters, await checkpoints.read(state.step, "weights"), "parameter");
      restore(optimizer.moments(), await checkpoints.read(state.step, "moments"), "moment");
      restore(buffersOf(stack), restored ?? new Map(), "buffer");
      noGrad(() => optimizer.step.fill_(state.step));
    }
    return new Trainer(job, run, context, checkpoints, state, updatesPerEpoch);
  }

  private constructor(
    job: Job,
    run: OpenRun,
    context: RunnerContext,
    checkpoints: Checkpoints | null,
    state: CheckpointState,
    updatesPerEpoch: number,
  ) {
    this.#job = job;
    this.#run = run;
    this.#context = context;
    this.#runner = eagerRunner(context);
    this.#checkpoints = checkpoints;
    this.#state = state;
    this.#updatesPerEpoch = updatesPerEpoch;
    if (job.folder !== null) mkdirSync(join(job.folder, "checkpoints"), { recursive: true });
    this.#events = job.folder === null ? null : new EventLog(join(job.folder, "events.jsonl"), state.eventBytes);
    this.#timings = job.folder === null ? null : new EventLog(join(job.folder, "timings.jsonl"), state.timingBytes);
  }

  async run(): Promise<Outcome> {
    const { settings, signal, stopAfter } = this.#job;
    const total = Math.min(this.#run.updates, stopAfter ?? Number.POSITIVE_INFINITY);
    const started = performance.now();
    const every = settings.evaluateEvery ?? this.#updatesPerEpoch;
    let stopped = this.#outOfPatience();
    while (this.#state.step < total && !stopped) {
      const { epoch, inEpoch } = this.#state;
      const batches = batchesOf(this.#job, this.#run.rng, epoch);
      for (let i = inEpoch; i < this.#updatesPerEpoch && this.#state.step < total && !stopped; i++) {
        this.#update(epoch, batches.slice(i * settings.accumulate, (i + 1) * settings.accumulate));
        const inNext = i + 1 === this.#updatesPerEpoch;
        this.#state = { ...this.#state, step: this.#state.step + 1, epoch: inNext ? epoch + 1 : epoch, inEpoch: inNext ? 0 : i + 1 };
        const last = this.#state.step === total;
        if (this.#pending.length >= settings.logEvery || last) this.#flush();
        // Signals, timers and sockets get their turn here; a Ctrl-C waits for one update at most.
        await new Promise(setImmediate);
        if (this.#job.selection && (this.#state.step % every === 0 || last)) stopped = await this.#evaluate();
        if (signal?.aborted) await this.#interrupt();
        if (this.#state.step % settings.checkpointEvery === 0) await this.#checkpoint();
      }
    }
    await this.#checkpoint();
    const chosenStep = await this.#loadChosen();
    const { step, epoch, best } = this.#state;
    return { steps: step, epochs: epoch, chosenStep, selection: best?.metrics ?? null, seconds: (performance.now() - started) / 1000 };
  }

  #update(epoch: number, batches: readonly Int32Array[]): void {
    const { settings, train, model, watch } = this.#job;
    const { step } = this.#state;
    const rate = rateOf(settings, step, this.#run.updates, epoch);
    const started = performance.now();
    const hosts = batches.map((indices) => toHostBatch(train, indices, model.tokenizer.special.pad, this.#job.placement.device));
    this.#context.optimizer.setRate(rate);
    this.#pending.push({ step, epoch, rate, scalars: this.#runner.update(step, hosts) });
    const seconds = (performance.now() - started) / 1000;
    const examples = hosts.reduce((sum, host) => sum + host.padded.rows, 0);
    this.#timings?.write({
      step,
      seconds,
      examples,
      tokens: hosts.reduce((sum, host) => sum + host.padded.tokens, 0),
      computed: hosts.reduce((sum, host) => sum + host.padded.rows * host.padded.length, 0),
    });
    watch?.onStep?.({ step: step + 1, steps: this.#run.updates, epoch, examples, seconds, loss: this.#lastLoss, rate });
  }

  #lastLoss = Number.NaN;

  /** Writes the events of the updates since the last time; a loss that is no number ends the run here, before any checkpoint of it. */
  #flush(): void {
    for (const { step, epoch, rate, scalars } of this.#pending.splice(0)) {
      const values = scalars.values.floats();
      free(scalars.values);
      const numbers = Object.fromEntries(scalars.names.map((name, i) => [name, values[i] as number]));
      this.#lastLoss = numbers.loss ?? Number.NaN;
      if (!Number.isFinite(this.#lastLoss)) {
        throw new UserError(
          `the loss is ${this.#lastLoss} at step ${step}: training stops. The last checkpoint before it stays good. Try a lower train.learningRate, or train.clip: 1; ` +
            `the terms were ${JSON.stringify(Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, String(value)])))}`,
        );
      }
      this.#write({ step, epoch, rate, ...numbers });
    }
  }

  #write(event: Readonly<Record<string, unknown>>): void {
    this.#events?.write(event);
    this.#job.watch?.onEvent?.(event);
  }

  /** Evaluates on the selection split; true where patience has run out. */
  async #evaluate(): Promise<boolean> {
    const { selection, settings, watch } = this.#job;
    this.#flush();
    if (!selection) return false;
    const metrics = await evaluateItems(this.#job.model, this.#context, selection.items, this.#job.placement);
    const value = metrics[settings.selectBy];
    if (value === undefined)
      throw new UserError(`train.selectBy: expected one of ${Object.keys(metrics).join(", ")}, received ${settings.selectBy}`);
    const { best, step } = this.#state;
    const better = best === null || isBetter(settings.selectBy, value, best.value);
    this.#state = { ...this.#state, best: better ? { step, value, metrics } : best, waited: better ? 0 : this.#state.waited + 1 };
    this.#write({ step, evaluation: metrics, best: better });
    watch?.onEvaluation?.(step, metrics, better);
    if (better) await this.#checkpoint();
    return this.#outOfPatience();
  }

  #outOfPatience(): boolean {
    const { patience } = this.#job.settings;
    return patience !== null && this.#state.waited >= patience;
  }

  async #checkpoint(): Promise<void> {
    if (!this.#checkpoints || !this.#events || !this.#timings) return this.#rememberBest();
    this.#flush();
    this.#events.sync();
    this.#state = { ...this.#state, eventBytes: this.#events.bytes, timingBytes: this.#timings.bytes };
    const { run, optimizer, stack } = this.#context;
    await this.#checkpoints.save(this.#state, { weights: run.parameters, moments: optimizer.moments(), buffers: buffersOf(stack) });
    await this.#checkpoints.prune(this.#job.settings.keepCheckpoints, this.#state.best?.step ?? null);
  }

  #bestWeights: Named | null = null;

  /** Without a folder the best weights wait in memory. */
  #rememberBest(): void {
    if (this.#state.best?.step !== this.#state.step) return;
    if (this.#bestWeights) free(this.#bestWeights);
    this.#bestWeights = noGrad(
      () => new Map([...this.#job.model.weights].map(([name, tensor]): [string, Tensor] => [name, keep(tensor.detach().clone())])),
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
    throw new Interrupted(`stopped after step ${this.#state.step} of ${this.#run.updates}; all of it is saved`);
  }

  close(): void {
    for (const { scalars } of this.#pending) free(scalars.values);
    if (this.#bestWeights) free(this.#bestWeights);
    this.#events?.close();
    this.#timings?.close();
    this.#context.optimizer.dispose();
    this.#run.close();
  }
}

function batchesOf(job: Job, rng: Rng, epoch: number): Int32Array[] {
  const { batches, batchSize } = job.settings;
  return epochBatches(job.train, job.task.labels.length, batches, batchSize, rng.fork("epoch", epoch));
}

/** Buffers of all layers under their own names. */
function buffersOf(stack: Stack): Named {
  return new Map(stack.layers.flatMap((layer) => [...(layer.state?.().buffers ?? [])]));
}
