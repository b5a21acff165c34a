import { type AttackRequest, attackRequestSchema } from "../actions/attack/attack-request.js";
import { createTextAttacker, type SearchStep, type TextAttacker } from "../actions/attack/attack-text.js";
import { type OpenVictim, openVictim } from "../actions/load/open-victim.js";
import { EditedText } from "../attacks/edited-text.js";
import { renderQuery } from "../attacks/run-recipe.js";
import { swapFromTable } from "../attacks/transformations/swap-from-table.js";
import { Rng } from "../base/rng.js";
import { toPredictions } from "../evaluation/metrics.js";
import type { CallContext } from "../jobs/call-process.js";
import { renderModelResult } from "../report/sections/examples.js";
import type { Task } from "../tasks/index.js";
import { drawRandomly } from "../tasks/sample.js";
import { findWordPlaces } from "../text/find-words.js";
import type { Substitutions } from "../text/substitutions.js";
import { splitIntoPieces } from "../text/text-pieces.js";
import type { PlaygroundExample, PlaygroundModel, Scored, SearchMessage } from "./api.js";

/** Words whose importance is computed. Longer texts would make people wait. */
const maxWords = 256;
const maxExamples = 20;
/** Attacks whose models stay loaded. */
const maxAttackers = 4;

type ModelInfo = Pick<PlaygroundModel, "labels" | "fields">;

/** An attack on a text that somebody typed. */
export interface TypedSearch {
  readonly texts: readonly string[];
  /** The true label; null for the predicted one. */
  readonly label: number | null;
  readonly attack: { readonly name: string; readonly options: Readonly<Record<string, unknown>> };
  /** Models that the attack uses, if they are not the defaults of `temper attack`. */
  readonly models: Pick<AttackRequest, "sentenceEncoder" | "maskedLm">;
}

/** A model to play with: a run or an ONNX model of the studio. */
export class LoadedPlaygroundModel {
  #queue: Promise<unknown> = Promise.resolve();
  readonly #attackers = new Map<string, TextAttacker>();

  private constructor(
    readonly reference: string,
    readonly info: ModelInfo,
    readonly victim: OpenVictim,
    readonly substitutions: Substitutions,
    readonly task: Task | null,
  ) {}

  static async load(reference: string): Promise<LoadedPlaygroundModel> {
    const request = attackRequestSchema.parse({ model: reference, skipBadRows: true });
    const victim = await openVictim({ model: reference });
    try {
      const { resources } = await victim.loadAttacks([], request, [], ["substitutions"]);
      // Without its data, a model can still be played with.
      const task = await victim.loadTask(request).catch(() => null);
      const fields = task?.fields ?? ["text"];
      const { labels } = victim.local!.model;
      return new LoadedPlaygroundModel(reference, { labels, fields }, victim, resources.substitutions!, task);
    } catch (error) {
      victim.close();
      throw error;
    }
  }

  close(): void {
    for (const attacker of this.#attackers.values()) attacker.close();
    this.victim.close();
  }

  async listExamples(): Promise<PlaygroundExample[]> {
    if (!this.task) return [];
    const examples = drawRandomly(await this.task.load("test"), maxExamples, 0);
    return examples.map(({ texts, label }) => ({ texts, label: this.info.labels[label] ?? "" }));
  }

  /** Classifies a text. With `withWords`, each word is hidden once to see how much it matters. */
  async score(texts: readonly string[], withWords: boolean): Promise<Scored> {
    const text = EditedText.create(texts, this.victim.victim.findWords ?? findWordPlaces);
    const { words, slots } = text;
    const count = withWords ? Math.min(words.length, maxWords) : 0;
    const positions = Array.from({ length: count }, (_, position) => position);
    const { victim } = this.victim;
    const without = positions.map((position) =>
      renderQuery({ text, hidden: { position, shown: { unknown: true } } }, victim.unkToken),
    );
    const answers = await this.#enqueue(() => victim.predict(victim.prepare([texts, ...without])));
    const [probabilities, ...hidden] = answers.map((answer) => Array.from(answer.probabilities));
    const predicted = toPredictions([probabilities!])[0]!;
    const candidates = swapFromTable(this.substitutions).apply(text, positions, new Rng(0)) as EditedText[];
    const fields = slots.map(({ field }) => field);
    return {
      probabilities: probabilities!,
      pieces: splitIntoPieces(texts, words, fields),
      words: hidden.map((row, i) => ({
        importance: probabilities![predicted]! - row[predicted]!,
        substitutes: candidates.filter(({ position }) => position === i).map((each) => each.getWord(i)),
      })),
    };
  }

  /** Attacks a text with the defaults of `temper attack`, and sends each step. */
  async attack(
    { texts, label, attack, models }: TypedSearch,
    { signal, send }: CallContext<SearchMessage>,
  ): Promise<void> {
    await this.#enqueue(async () => {
      const { labels, fields } = this.info;
      const modifiableFields = this.task?.modifiableFields ?? fields.map((_, i) => i);
      const request = { model: this.reference, attacks: [attack], ...models };
      const key = JSON.stringify(request);
      const given = { victim: this.victim, labels, modifiableFields };
      const attacker = this.#attackers.get(key) ?? (await createTextAttacker(request, {}, given));
      this.#attackers.set(key, attacker);
      for (const oldest of this.#attackers.keys()) if (this.#attackers.size > maxAttackers) this.#free(oldest);
      const onStep = (step: SearchStep): void => send({ type: "step", ...step });
      const [done] = await attacker.attack(texts, { label: label ?? undefined, signal, onStep });
      const { result } = done!;
      const { outcome, queries, finalTexts } = result;
      const html = renderModelResult({ group: { name: "" }, labels, result });
      send({ type: "end", outcome, queries, texts: finalTexts, html: html.text });
    });
  }

  #free(key: string): void {
    this.#attackers.get(key)?.close();
    this.#attackers.delete(key);
  }

  /** One piece of work after the other, so that two requests never compute at the same time. */
  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => undefined);
    return done;
  }
}
