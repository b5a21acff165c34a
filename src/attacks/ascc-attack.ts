import { UserError } from "../errors.js";
import { forward, type Model, toModelInput } from "../models/index.js";
import { evalMode } from "../nn/index.js";
import { noGrad, Rng, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";
import { validate } from "../validate.js";
import {
  findWorstCaseSubstitutions,
  type HullOptions,
  type HullSelection,
  hullSchema,
  type LocalModel,
  withReplacements,
} from "./ascc-search.js";
import type { AttackExample } from "./attack-space.js";
import { modifiableWords } from "./open-words.js";
import { splitIntoChunks } from "./pool.js";
import { type AttackResult, createAttackResult } from "./result.js";
import { type Attacker, createCounters } from "./run-attack.js";
import { isMisclassified, margin, nearTieMargin, type Score } from "./search.js";

/** A model at hand, whose gradients can be taken. */
export interface GradientVictim extends LocalModel {
  readonly model: Pick<Model, "architecture" | "tokenizer" | "tokenization" | "maxLength">;
  /** Hashes of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
}

/** Texts whose gradients are taken together. Which ones these are depends on the examples alone, so a resumed run meets the same. */
const batchSize = 32;

/** Queries beside the steps of the search: the text as it was, and as it became. */
const extraQueries = 2;

/** The white-box attack of ASCC on a finished model: the convex hull is searched by gradients, the result is a text. */
export function createAsccAttacker(victim: GradientVictim, raw: unknown = {}): Attacker {
  const options = validate(hullSchema, raw, "attack ascc");
  const { tokenization: encoding } = victim.model;
  if (encoding !== "word")
    throw new UserError(
      `attack ascc: expected a model that reads one token a word (encoding: word), received one trained with encoding: ${encoding}; use pwws or genetic`,
    );
  const counters = createCounters();
  return {
    name: "ascc",
    options,
    // More steps might find more, but its texts are all made after the last one: when they succeeded tells nothing of that.
    hasBudget: false,
    hashes: victim.hashes,
    counters,
    async *run(targets, { seed, skip = 0, budget = Number.POSITIVE_INFINITY }) {
      if (budget < extraQueries)
        throw new UserError(`attack ascc: expected a budget of at least ${extraQueries} queries, received ${budget}`);
      const within = { ...options, steps: Math.min(options.innerSteps, budget - extraQueries) };
      const seeds = new Rng(seed).fork("attack", "ascc");
      let position = 0;
      for await (const batch of splitIntoChunks(targets, batchSize)) {
        const results = position + batch.length <= skip ? [] : attackBatch(victim, batch, seeds, within);
        for (const [i, result] of results.entries()) {
          counters.queries += result.queries;
          counters.queryTokens += result.queries * result.words.length;
          counters.evaluations = counters.queries;
          counters.evaluatedTokens = counters.queryTokens;
          if (position + i >= skip) yield result;
        }
        position += batch.length;
      }
    },
  };
}

function attackBatch(
  victim: GradientVictim,
  targets: readonly AttackExample[],
  seeds: Rng,
  options: HullOptions,
): AttackResult[] {
  const { model } = victim;
  const texts = targets.map((target) => {
    const encoded = model.tokenizer.encodeWords(target.texts, model.maxLength);
    const open = modifiableWords(target.replacements, encoded.positions, (word) => model.tokenizer.wordToId(word));
    return { encoding: encoded, modifiableWords: open, label: target.label, rng: seeds.fork(target.id) };
  });
  const before = scoreBatch(
    victim,
    texts.map((text) => text.encoding),
  );
  const found = findWorstCaseSubstitutions(victim, texts, options);
  const slots = targets.map((target, i) => limitChanges(found[i]!, target.maxChanged));
  const after = scoreBatch(
    victim,
    texts.map((text, i) => withReplacements(text.encoding, text.modifiableWords, slots[i]!)),
  );
  return targets.map((target, i) => {
    const [first, last] = [before[i]!, after[i]!];
    const nearTie = [first, last].some((each) => Math.abs(margin(each, target.label)) < nearTieMargin);
    const picks = new Int16Array(target.words.length);
    if (isMisclassified(first, target.label))
      return createAttackResult(target, {
        outcome: "skipped",
        replacementIndices: picks,
        queries: 1,
        before: first,
        after: first,
        nearTie,
      });
    for (const [j, word] of texts[i]!.modifiableWords.wordIndices.entries()) picks[word] = slots[i]![j]!;
    const outcome = isMisclassified(last, target.label) ? "success" : "failed";
    return createAttackResult(target, {
      outcome,
      replacementIndices: picks,
      queries: options.innerSteps + extraQueries,
      before: first,
      after: last,
      nearTie,
    });
  });
}

/** Class probabilities of encoded texts, as one batch. */
function scoreBatch({ model, weights, device }: GradientVictim, encoded: readonly Encoding[]): Score[] {
  const { numLabels: classes } = model.architecture;
  const values = scope(() =>
    noGrad(() => {
      const input = toModelInput(padBatch(encoded, model.tokenizer.special.padId), device);
      return forward(model.architecture, weights, input, evalMode).logits.softmax(-1).toFloat32Array();
    }),
  );
  return encoded.map((_, row) => ({ probabilities: values.subarray(row * classes, (row + 1) * classes) }));
}

/** The slots with at most so many words changed: those of most weight. */
function limitChanges({ replacementIndices: slots, mixtureWeights }: HullSelection, maxChanged: number): Int32Array {
  const changed = [...slots.keys()]
    .filter((i) => slots[i] !== 0)
    .sort((a, b) => mixtureWeights[b]! - mixtureWeights[a]! || a - b);
  const kept = new Set(changed.slice(0, maxChanged));
  return slots.map((slot, i) => (kept.has(i) ? slot : 0));
}
