import { z } from "zod";
import { isEndpoint, type LoadedVictim, loadVictim } from "../actions/load/load-victim.js";
import { loadRequestedTask, loadSubstitutionsForModel } from "../actions/train/prepare-run.js";
import {
  type AttackExample,
  type AttackSpaceOptions,
  createAttackExample,
  createInputBuilder,
} from "../attacks/attack-space.js";
import { constraintsSchema } from "../attacks/constraints.js";
import { loadAttack } from "../attacks/load-attack.js";
import type { AttackResult } from "../attacks/result.js";
import { type Candidate, createUnchangedCandidate } from "../attacks/search.js";
import { type WatchedStep, watchAttack } from "../attacks/watch-attack.js";
import { toPredictions } from "../evaluation/metrics.js";
import { dataOptions } from "../runs/config.js";
import { resolveTablePath } from "../runs/read-config.js";
import type { Task } from "../tasks/index.js";
import { drawRandomly } from "../tasks/sample.js";
import { createTextTemplate } from "../text/text-template.js";
import type { PlaygroundExample, PlaygroundModel, Scored } from "./api.js";

/** Words whose importance is computed. Longer texts would make people wait. */
const maxWords = 256;
const maxExamples = 20;
const labelsTimeout = 3000;

/** A model to play with: a run of the studio, or an endpoint. */
export class LoadedPlaygroundModel {
  #queue: Promise<unknown> = Promise.resolve();

  private constructor(
    readonly info: PlaygroundModel,
    readonly victim: LoadedVictim,
    readonly space: AttackSpaceOptions,
    readonly task: Task | null,
  ) {}

  /** Loads a run's model by its folder, or connects to an endpoint by its URL. */
  static async load(reference: string, attacks: readonly string[]): Promise<LoadedPlaygroundModel> {
    const victim = await loadVictim(reference);
    try {
      const { local } = victim;
      const config = local?.run?.config;
      const { inVocabSubstitutes = false, caseSensitiveSubstitutes = false } = config ?? {};
      const source = resolveTablePath(config?.substitutions ?? "wordnet");
      const options = { inVocabSubstitutes, caseSensitiveSubstitutes };
      const substitutions = await loadSubstitutionsForModel(source, options, local?.model ?? null);
      const data = { ...z.object(dataOptions).parse({}), skipBadRows: true };
      // Without its data, a model can still be played with.
      const task = local ? await loadRequestedTask(data, local.model, local.run, {}).catch(() => null) : null;
      const fields = task?.fields ?? ["text"];
      const labels = local?.model.labels ?? (await readEndpointLabels(reference, victim.victim.numLabels));
      return new LoadedPlaygroundModel(
        { reference, labels, fields, attacks },
        victim,
        {
          modifiableFields: task?.modifiableFields ?? fields.map((_, i) => i),
          substitutions,
          constraints: constraintsSchema.parse({}),
          encode: victim.encode,
        },
        task,
      );
    } catch (error) {
      victim.close();
      throw error;
    }
  }

  close(): void {
    this.victim.close();
  }

  /** Texts of the model's task to start from. */
  async listExamples(): Promise<PlaygroundExample[]> {
    if (!this.task) return [];
    const examples = drawRandomly(await this.task.load("test"), maxExamples, 0);
    return examples.map(({ texts, label }) => ({ texts, label }));
  }

  /** Classifies a text. With `withWords`, each word is hidden once to see how much it matters. */
  async score(texts: readonly string[], withWords: boolean): Promise<Scored> {
    const example = this.#createExample(texts, 0);
    const { words, fields, replacements } = example;
    const unchanged = createUnchangedCandidate(example);
    const count = withWords ? Math.min(words.length, maxWords) : 0;
    const masked = Array.from({ length: count }, (_, mask) => ({ ...unchanged, mask }));
    const [probabilities, ...hidden] = await this.#classify(example, [unchanged, ...masked]);
    const predicted = toPredictions([probabilities!])[0]!;
    return {
      probabilities: [...probabilities!],
      pieces: createTextTemplate(texts, words, fields).pieces(words),
      words: hidden.map((row, i) => ({
        importance: probabilities![predicted]! - row[predicted]!,
        substitutes: replacements[i]!.slice(1),
      })),
    };
  }

  /** Attacks a text. Without a label, the model's prediction counts as correct. */
  async *attack(
    texts: readonly string[],
    givenLabel: number | null,
    spec: { readonly name: string; readonly options: unknown },
    signal: AbortSignal,
  ): AsyncGenerator<WatchedStep, AttackResult | null> {
    const { probabilities } = await this.score(texts, false);
    const label = givenLabel ?? toPredictions([probabilities])[0]!;
    const attack = await loadAttack(spec.name, spec.options);
    const victim = { ...this.victim.victim, probabilities: this.#probabilities.bind(this) };
    return yield* watchAttack(victim, this.#createExample(texts, label), attack, { signal });
  }

  #createExample(texts: readonly string[], label: number): AttackExample {
    return createAttackExample({ id: "playground", label, texts }, this.space);
  }

  async #classify(example: AttackExample, candidates: readonly Candidate[]): Promise<Float32Array[]> {
    const toInput = createInputBuilder(example);
    const inputs = candidates.map((candidate) => this.victim.victim.prepare(toInput(candidate)));
    return this.#probabilities(inputs);
  }

  /** One call after the other, so that two requests never compute at the same time. */
  #probabilities(inputs: Parameters<LoadedVictim["victim"]["probabilities"]>[0]): Promise<Float32Array[]> {
    const { victim } = this.victim;
    const order = inputs.map((_, i) => i).sort((a, b) => inputs[a]!.length - inputs[b]!.length);
    const work = this.#queue.then(async () => {
      const rows = new Array<Float32Array>(inputs.length);
      for (let start = 0; start < order.length; start += victim.maxBatchSize) {
        const part = order.slice(start, start + victim.maxBatchSize);
        const found = await victim.probabilities(part.map((i) => inputs[i]!));
        for (const [k, i] of part.entries()) rows[i] = found[k]!;
      }
      return rows;
    });
    this.#queue = work.catch(() => undefined);
    return work;
  }
}

const labelsSchema = z.object({ labels: z.array(z.string()) });

/** `temper serve` says its labels. The classes of other endpoints have numbers. */
async function readEndpointLabels(url: string, numLabels: number): Promise<readonly string[]> {
  const unnamed = Array.from({ length: numLabels }, (_, i) => `class ${i}`);
  if (!isEndpoint(url)) return unnamed;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(labelsTimeout) });
    const { labels } = labelsSchema.parse(await response.json());
    return labels.length === numLabels ? labels : unnamed;
  } catch {
    return unnamed;
  }
}
