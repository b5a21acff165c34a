import { UserError } from "../errors.js";
import { forward, type Model, toInput } from "../models/index.js";
import { evaluating } from "../nn/index.js";
import { noGrad, Rng, scope } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import type { Encoded } from "../text/encoding.js";
import { validate } from "../validate.js";
import type { Attacker, Counters } from "./attacker.js";
import { nearTieMargin } from "./example.js";
import { type HullOptions, type HullPicks, hardestSlots, hullSchema, type ModelAtHand, withSlots } from "./hardest-slots.js";
import { openWords } from "./open-words.js";
import { chunks } from "./pool.js";
import { type AttackResult, resultOf } from "./result.js";
import { fools, lead, type Score } from "./search.js";
import type { Target } from "./target.js";

/** A model at hand, whose gradients can be taken. */
export interface GradientVictim extends ModelAtHand {
  readonly model: Pick<Model, "shape" | "tokenizer" | "encoding" | "maxLength">;
  /** Hashes of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
}

/** Texts whose gradients are taken together. Which ones these are depends on the examples alone, so a resumed run meets the same. */
const batchSize = 32;

/** Queries beside the steps of the search: the text as it was, and as it became. */
const beside = 2;

/** The white-box attack of ASCC on a finished model: the convex hull is searched by gradients, the result is a text. */
export function asccAttacker(victim: GradientVictim, raw: unknown = {}): Attacker {
  const options = validate(hullSchema, raw, "attack ascc");
  const { encoding } = victim.model;
  if (encoding !== "word")
    throw new UserError(
      `attack ascc: expected a model that reads one token a word (encoding: word), received one trained with encoding: ${encoding}; use pwws or genetic`,
    );
  const counters: Counters = { asked: 0, askedTokens: 0, forwarded: 0, forwardedTokens: 0 };
  return {
    name: "ascc",
    options,
    // More steps might find more, but its texts are all made after the last one: when they succeeded tells nothing of that.
    limited: false,
    hashes: victim.hashes,
    counters,
    async *run(targets, { seed, skip = 0, budget = Number.POSITIVE_INFINITY }) {
      if (budget < beside) throw new UserError(`attack ascc: expected a budget of at least ${beside} queries, received ${budget}`);
      const within = { ...options, steps: Math.min(options.steps, budget - beside) };
      const seeds = new Rng(seed).fork("attack", "ascc");
      let position = 0;
      for await (const batch of chunks(targets, batchSize)) {
        const results = position + batch.length <= skip ? [] : attackTargets(victim, batch, seeds, within);
        for (const [i, result] of results.entries()) {
          counters.asked += result.queries;
          counters.askedTokens += result.queries * result.words.length;
          counters.forwarded = counters.asked;
          counters.forwardedTokens = counters.askedTokens;
          if (position + i >= skip) yield result;
        }
        position += batch.length;
      }
    },
  };
}

function attackTargets(victim: GradientVictim, targets: readonly Target[], seeds: Rng, options: HullOptions): AttackResult[] {
  const { model } = victim;
  const texts = targets.map((target) => {
    const encoded = model.tokenizer.encodeWords(target.texts, model.maxLength);
    const open = openWords(target.choices, encoded.positions, (word) => model.tokenizer.wordToken(word));
    return { encoded, open, label: target.label, rng: seeds.fork(target.id) };
  });
  const before = score(
    victim,
    texts.map((text) => text.encoded),
  );
  const found = hardestSlots(victim, texts, options);
  const slots = targets.map((target, i) => atMost(found[i]!, target.maxChanged));
  const after = score(
    victim,
    texts.map((text, i) => withSlots(text.encoded, text.open, slots[i]!)),
  );
  return targets.map((target, i) => {
    const [first, last] = [before[i]!, after[i]!];
    const nearTie = [first, last].some((each) => Math.abs(lead(each, target.label)) < nearTieMargin);
    const picks = new Int16Array(target.words.length);
    if (fools(first, target.label))
      return resultOf(target, { outcome: "skipped", picks, queries: 1, before: first, after: first, nearTie });
    for (const [j, word] of texts[i]!.open.words.entries()) picks[word] = slots[i]![j]!;
    const outcome = fools(last, target.label) ? "success" : "failed";
    return resultOf(target, { outcome, picks, queries: options.steps + beside, before: first, after: last, nearTie });
  });
}

/** Class probabilities of encoded texts, as one batch. */
function score({ model, weights, device }: GradientVictim, encoded: readonly Encoded[]): Score[] {
  const { classes } = model.shape;
  const values = scope(() =>
    noGrad(() => {
      const input = toInput(padBatch(encoded, model.tokenizer.special.pad), device);
      return forward(model.shape, weights, input, evaluating).logits.softmax(-1).floats();
    }),
  );
  return encoded.map((_, row) => ({ probabilities: values.subarray(row * classes, (row + 1) * classes) }));
}

/** The slots with at most so many words changed: those of most weight. */
function atMost({ slots, shares }: HullPicks, most: number): Int32Array {
  const changed = [...slots.keys()].filter((i) => slots[i] !== 0).sort((a, b) => shares[b]! - shares[a]! || a - b);
  const kept = new Set(changed.slice(0, most));
  return slots.map((slot, i) => (kept.has(i) ? slot : 0));
}
