import { computeRunSeconds, measureRun, type RunBenchmark } from "../actions/train/estimate-run.js";
import { type CountedWork, countWork, type RunWork } from "../actions/train/run-work.js";
import { Interrupted } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { mean } from "../evaluation/statistics.js";
import { type ResolvedRun, resolveRun, userModules } from "../settings/read-config.js";
import { splitWords } from "../text/words.js";
import { type ModelName, modelNames } from "./attempt.js";
import type { HardenPlan } from "./plan.js";
import type { HardenData } from "./read-data.js";

export interface HardenTime {
  readonly standard: number;
  readonly robust: number;
  readonly attacks: number;
  readonly total: number;
}

/** Seconds in which the steps of one model are measured. */
const benchmarkSeconds = 8;
/** Queries per word of a text: pwws needs 1.2 with the substitutes that fit their context, and more of a robust model. */
const queriesPerWord = 1.5;
/** An attack skips texts that the model misclassifies. */
const attackedFraction = 0.8;

/**
 * Estimates hardenings of one data set: the steps of both models are measured once, and the work of
 * every plan is counted. The files of the data have to exist.
 */
export class HardenEstimator {
  readonly #data: HardenData;
  readonly #callbacks: Callbacks;
  readonly #benchmarks = new Map<string, RunBenchmark>();

  constructor(data: HardenData, callbacks: Callbacks) {
    this.#data = data;
    this.#callbacks = callbacks;
  }

  async estimate(plan: HardenPlan, finished: ReadonlySet<ModelName> = new Set()): Promise<HardenTime> {
    const runs = {
      standard: await resolveRun(plan.settings, userModules),
      robust: await resolveRun({ ...plan.settings, methods: [plan.method] }, userModules),
    };
    const { works, sample } = await countWork(Object.values(runs));
    const seconds = { standard: 0, robust: 0, attacks: 0 };
    for (const [i, name] of modelNames.entries()) {
      const work = works[i]!;
      const benchmark = await this.#measure(runs[name], work, sample);
      const { prepare, train, evaluate } = computeRunSeconds(work, benchmark);
      if (!finished.has(name)) seconds[name] = prepare + train + evaluate;
      seconds.attacks += this.#estimateAttacks(plan, work, benchmark);
    }
    return { ...seconds, total: seconds.standard + seconds.robust + seconds.attacks };
  }

  /** Measures one method once: the benchmark scales to other lengths and numbers of steps. */
  async #measure(run: ResolvedRun, { stepsPerEpoch }: RunWork, sample: CountedWork["sample"]): Promise<RunBenchmark> {
    const key = JSON.stringify(run.config.methods);
    const known = this.#benchmarks.get(key);
    if (known) return known;
    if (this.#callbacks.signal?.aborted) throw new Interrupted("Stopped before the training. No model was trained.");
    const report = (): void =>
      reportProgress(this.#callbacks, "measure a few steps", this.#benchmarks.size, modelNames.length, "models");
    report();
    const options = { sample, stepsPerEpoch, seconds: benchmarkSeconds };
    // The runs give their warnings when they start.
    const measured = await measureRun(run, options, {});
    this.#benchmarks.set(key, measured);
    report();
    return measured;
  }

  /** The time of the queries, from the time of a forward pass. */
  #estimateAttacks(
    { attacks, numExamples }: HardenPlan,
    { flops, examples }: RunWork,
    benchmark: RunBenchmark,
  ): number {
    const { test } = this.#data.examples;
    const words = mean(test.map(({ texts }) => texts.reduce((sum, text) => sum + splitWords(text).length, 0)));
    const queries = attacks.length * numExamples * attackedFraction * queriesPerWord * words;
    return queries * (flops.test / Math.max(1, examples.test)) * benchmark.predictRate;
  }
}
