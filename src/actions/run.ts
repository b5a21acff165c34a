import type { Callbacks } from "../base/events.js";
import type { EvaluationResult } from "../runs/results.js";
import { RunFolder } from "../runs/run-folder.js";
import { type MetricValue, readDegeneracy, readMetrics } from "../runs/run-metrics.js";
import type { AttackReport } from "./attack/attack.js";
import type { AttackRequest } from "./attack/attack-request.js";
import type { EvaluateRequest } from "./evaluate.js";
import type { LoadClassifierOptions, TextClassifier } from "./predict/text-classifier.js";

/**
 * A run folder and the actions on its model. Each method is the action of the same name with the
 * model filled in.
 *
 *     const run = await Run.open("runs/sst2-rose-seed0");
 *     console.log((await run.results())?.test.accuracy);
 *     await run.attack("pwws", { numExamples: 100 });
 */
export class Run extends RunFolder {
  /** Opens a run folder, finished or not. */
  static override async open(folder: string): Promise<Run> {
    return Run.#from(await RunFolder.open(folder));
  }

  /** Every run at or below the folders, each once, sorted by path. */
  static override async find(folders: string | readonly string[]): Promise<Run[]> {
    return (await RunFolder.find(folders)).map(Run.#from);
  }

  static #from({ folder, config }: RunFolder): Run {
    return new Run(folder, config);
  }

  /** Every number measured on the run, by metric id. */
  metrics(): Promise<ReadonlyMap<string, MetricValue>> {
    return readMetrics(this);
  }

  /**
   * The reason why the run's model is degenerate: it predicts one label, or cannot be told from guessing. Null
   * if it is sound.
   */
  degeneracy(): Promise<string | null> {
    return readDegeneracy(this);
  }

  /** Loads the run's model. Free it with `await using` or `close()`. */
  async loadModel(options: LoadClassifierOptions = {}): Promise<TextClassifier> {
    const { loadClassifier } = await import("./predict/text-classifier.js");
    return loadClassifier(this.folder, options);
  }

  /** Evaluates the run's model, by default on the test split of its task. */
  async evaluate(options: Omit<EvaluateRequest, "model"> = {}): Promise<EvaluationResult> {
    const { evaluate } = await import("./evaluate.js");
    return evaluate({ ...options, model: this.folder });
  }

  /** Attacks the run's model and stores the journals and the report in the run folder. */
  async attack(
    attacks: NonNullable<AttackRequest["attacks"]>[number] | NonNullable<AttackRequest["attacks"]>,
    options: Omit<AttackRequest, "model" | "attacks"> & Callbacks = {},
  ): Promise<AttackReport> {
    const { attack } = await import("./attack/attack.js");
    const { onEvent, signal, ...request } = options;
    return attack({ ...request, model: this.folder, attacks: [attacks].flat() }, { onEvent, signal });
  }
}
