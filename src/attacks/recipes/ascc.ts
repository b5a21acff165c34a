import { UserError } from "../../errors.js";
import { findWorstCaseSubstitutions, type HullSelection, replaceTokens } from "../../hull/attack-encodings.js";
import { findModifiableWords, type HullOptions, hullSchema } from "../../hull/convex-hull.js";
import type { LocalModel } from "../../hull/hull-model.js";
import { checkOutputs, forward, type Model, toModelInput } from "../../models/index.js";
import { evalMode } from "../../nn/index.js";
import { noGrad, Rng, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding } from "../../text/encoding.js";
import { validate } from "../../validate.js";
import type { AttackExample } from "../attack-space.js";
import { splitIntoChunks } from "../pool.js";
import { createCounters } from "../query-counters.js";
import { type AttackResult, createAttackResult } from "../result.js";
import type { Attacker } from "../run-attack.js";
import { isMisclassified, margin, nearTieMargin, type Score } from "../search.js";

/** A local model whose gradients can be computed. */
export interface GradientVictim extends LocalModel {
  readonly model: Pick<Model, "architecture" | "tokenizer" | "tokenization" | "maxLength">;
  /** Hashes of its parts for the journal ({ model, tokenizer }). */
  readonly hashes: Readonly<Record<string, string>>;
}

/**
 * Texts per batch. Batches depend only on the examples, so that a resumed attack forms the same
 * ones.
 */
const batchSize = 32;

/** Queries besides the inner steps: the original text and the attacked text. */
const extraQueries = 2;

/** The white-box attack of ASCC: a gradient search in the convex hull that results in a text. */
export function createAsccAttacker(victim: GradientVictim, rawOptions: unknown = {}): Attacker {
  const options = validate(hullSchema, rawOptions, "attack ascc");
  const { tokenization } = victim.model;
  if (tokenization !== "word")
    throw new UserError(
      `attack ascc: the model must use tokenization: word, but it was trained with tokenization: ${tokenization}. ` +
        "Use pwws or genetic instead.",
    );
  const counters = createCounters();
  return {
    name: "ascc",
    options,
    // All texts are created after the last inner step, so late successes say nothing about more
    // steps.
    hasBudget: false,
    hashes: victim.hashes,
    counters,
    async *run(examples, { seed, skip = 0, budget = Number.POSITIVE_INFINITY }) {
      if (budget < extraQueries)
        throw new UserError(`attack ascc: the query budget must be at least ${extraQueries}, received ${budget}.`);
      const limited = { ...options, innerSteps: Math.min(options.innerSteps, budget - extraQueries) };
      const rng = new Rng(seed).fork("attack", "ascc");
      let position = 0;
      for await (const batch of splitIntoChunks(examples, batchSize)) {
        const results =
          position + batch.length <= skip ? [] : attackBatch(victim, batch as AttackExample[], rng, limited);
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
  examples: readonly AttackExample[],
  rng: Rng,
  options: HullOptions,
): AttackResult[] {
  const { tokenizer, maxLength } = victim.model;
  const texts = examples.map((example) => {
    const encoding = tokenizer.encodeWords(example.texts, maxLength);
    const modifiableWords = findModifiableWords(example.replacements, encoding.positions, (word) =>
      tokenizer.wordToId(word),
    );
    return { encoding, modifiableWords, label: example.label, rng: rng.fork(example.id) };
  });
  const before = scoreBatch(
    victim,
    texts.map((text) => text.encoding),
  );
  const selections = findWorstCaseSubstitutions(victim, texts, options);
  const selected = examples.map((example, i) => limitChanges(selections[i]!, example.maxChanged));
  const after = scoreBatch(
    victim,
    texts.map((text, i) => replaceTokens(text.encoding, text.modifiableWords, selected[i]!)),
  );
  return examples.map((example, i) => {
    const [first, last] = [before[i]!, after[i]!];
    const nearTie = [first, last].some((score) => Math.abs(margin(score, example.label)) < nearTieMargin);
    const replacementIndices = new Int16Array(example.words.length);
    const found = { replacementIndices, before: first, nearTie };
    if (isMisclassified(first, example.label))
      return createAttackResult(example, { ...found, outcome: "skipped", queries: 1, after: first });
    for (const [j, word] of texts[i]!.modifiableWords.wordIndices.entries())
      replacementIndices[word] = selected[i]![j]!;
    return createAttackResult(example, {
      ...found,
      outcome: isMisclassified(last, example.label) ? "success" : "failed",
      queries: options.innerSteps + extraQueries,
      after: last,
    });
  });
}

/** Class probabilities of texts, computed as one batch. */
function scoreBatch({ model, weights, device }: GradientVictim, encodings: readonly Encoding[]): Score[] {
  const { numLabels } = model.architecture;
  const values = scope(() =>
    noGrad(() => {
      const input = toModelInput(padBatch(encodings, model.tokenizer.special.padId), model.architecture.config, device);
      return checkOutputs(forward(model.architecture, weights, input, evalMode).logits.softmax(-1).toFloat32Array());
    }),
  );
  return encodings.map((_, row) => ({ probabilities: values.subarray(row * numLabels, (row + 1) * numLabels) }));
}

/** Keeps at most `maxChanged` changed words: those with the largest mixture weights. */
function limitChanges({ replacementIndices, mixtureWeights }: HullSelection, maxChanged: number): Int32Array {
  const changed = [...replacementIndices.keys()]
    .filter((i) => replacementIndices[i] !== 0)
    .sort((a, b) => mixtureWeights[b]! - mixtureWeights[a]! || a - b);
  const kept = new Set(changed.slice(0, maxChanged));
  return replacementIndices.map((candidate, i) => (kept.has(i) ? candidate : 0));
}
