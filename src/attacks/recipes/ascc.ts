import { UserError } from "../../base/errors.js";
import { takeTurn } from "../../base/event-loop.js";
import { findWorstCaseSubstitutions, type HullSelection } from "../../hull/attack-encodings.js";
import { findModifiableWords, type HullOptions, hullSchema } from "../../hull/convex-hull.js";
import { checkOutputs, forward, toModelInput } from "../../models/index.js";
import type { Score } from "../../models/inference/score.js";
import { evalMode } from "../../nn/index.js";
import type { Example } from "../../tasks/example.js";
import { noGrad, Rng, scope } from "../../tensor/index.js";
import { padBatch } from "../../text/batch.js";
import type { Encoding } from "../../text/encoding.js";
import { fitContext } from "../constraints/context.js";
import { defineAttack } from "../define-attack.js";
import { EditedText } from "../edited-text.js";
import { isMisclassified, margin, nearTieMargin, untargeted } from "../goals.js";
import { createWordFinder } from "../model-victim.js";
import { splitIntoChunks } from "../pool.js";
import type { Recipe, RunOptions } from "../protocol.js";
import { computeAndCount, type QueryCounters } from "../query-counters.js";
import { computeTogether } from "../requests.js";
import type { GradientVictim } from "../resources.js";
import { type AttackResult, createAttackResult, measureSpace } from "../result.js";
import { expandText, findOpenPositions } from "../run-recipe.js";
import { swapFromTable } from "../transformations/swap-from-table.js";

/**
 * Texts per batch. Batches depend only on the examples, so that a resumed attack forms the same
 * ones.
 */
const batchSize = 32;

/** Queries besides the inner steps: the original text and the attacked text. */
const extraQueries = 2;

export const ascc = defineAttack({
  name: "ascc",
  summary: "gradient search in the convex hull of the substitutes (white box)",
  paper: "Dong et al. 2021, Towards Robustness Against Natural Language Word Substitutions",
  options: hullSchema,
  resources: ["substitutions", "model"],
  optional: ["context"],
  // All texts are created after the last inner step, so late successes say nothing about more
  // steps.
  hasBudget: false,
  build(options, { substitutions, context, model: victim }) {
    // A description of the attack has no model.
    if (victim.model?.tokenization === "subword")
      throw new UserError(
        "attack ascc: the model must use tokenization: word, but it was trained with tokenization: subword. " +
          "Use pwws or genetic instead.",
      );
    return {
      goal: untargeted,
      transformations: [swapFromTable(substitutions)],
      constraints: fitContext(context),
      search: {
        name: "gradient ascent on mixtures of substitutes",
        cost: String(options.innerSteps + extraQueries),
        runAll: (recipe, examples, run, counters) => searchHulls(victim, options, recipe, examples, run, counters),
      },
    };
  },
});

/** The white-box attack of ASCC: a gradient search in the convex hull that results in a text. */
async function* searchHulls(
  victim: GradientVictim,
  options: HullOptions,
  recipe: Recipe,
  examples: Iterable<Example> | AsyncIterable<Example>,
  { seed, skip = 0, budget = Number.POSITIVE_INFINITY, signal }: RunOptions,
  counters: QueryCounters,
): AsyncGenerator<AttackResult> {
  if (typeof budget === "object")
    throw new UserError("attack ascc: all texts of a batch share a query budget. Use --query-budget instead.");
  if (budget < extraQueries)
    throw new UserError(`attack ascc: the query budget must be at least ${extraQueries}, received ${budget}.`);
  const limited = { ...options, innerSteps: Math.min(options.innerSteps, budget - extraQueries) };
  const rng = new Rng(seed).fork("attack", "ascc");
  let position = 0;
  for await (const batch of splitIntoChunks(examples, batchSize)) {
    await takeTurn(signal);
    if (position + batch.length > skip) {
      const texts = await findCandidates(victim, batch, recipe, (resource, inputs) =>
        computeAndCount(resource, inputs, counters),
      );
      for (const [i, result] of attackBatch(victim, texts, recipe, rng, limited).entries()) {
        const queryTokens = result.queries * result.words.length;
        counters.queries += result.queries;
        counters.queryTokens += queryTokens;
        counters.evaluations += result.queries;
        counters.evaluatedTokens += queryTokens;
        if (position + i >= skip) yield result;
      }
    }
    position += batch.length;
  }
}

interface HullExample extends Example {
  readonly original: EditedText;
  readonly candidates: readonly EditedText[];
}

async function findCandidates(
  { model }: GradientVictim,
  examples: readonly Example[],
  parts: Recipe,
  compute: Parameters<typeof computeTogether>[1],
): Promise<HullExample[]> {
  const find = createWordFinder(model);
  const originals = examples.map(({ texts }) => EditedText.create(texts, find));
  const candidates = await computeTogether(
    originals.map((text) => expandText(parts, text, findOpenPositions(parts, text), new Rng(0))),
    compute,
  );
  return examples.map((example, i) => ({ ...example, original: originals[i]!, candidates: candidates[i]! }));
}

function attackBatch(
  victim: GradientVictim,
  examples: readonly HullExample[],
  parts: Recipe,
  rng: Rng,
  options: HullOptions,
): AttackResult[] {
  const { tokenizer, maxLength } = victim.model;
  const encode = ({ texts }: EditedText) => tokenizer.encodeWords(texts, maxLength);
  const texts = examples.map(({ id, label, original, candidates }) => {
    const encoding = encode(original);
    const byWord = original.words.map((_, i) => candidates.filter(({ origin }) => origin === i));
    const replacements = byWord.map((list, i) => [original.getWord(i), ...list.map((text) => text.getWord(i))]);
    const modifiableWords = findModifiableWords(replacements, encoding.positions, (word) => tokenizer.wordToId(word));
    return { encoding, byWord, modifiableWords, label, rng: rng.fork(id) };
  });
  const before = scoreBatch(
    victim,
    texts.map(({ encoding }) => encoding),
  );
  const selections = findWorstCaseSubstitutions(victim, texts, options);
  const final = examples.map(({ original }, i) => {
    const { byWord, modifiableWords } = texts[i]!;
    const changes = selectChanges(selections[i]!).map(
      ({ row, choice }) => byWord[modifiableWords.wordIndices[row]!]![choice - 1]!,
    );
    return applyAllowed(original, changes, parts);
  });
  const after = scoreBatch(victim, final.map(encode));
  return examples.map(({ id, label, original, candidates }, i) => {
    const [first, last] = [before[i]!, after[i]!];
    const nearTie = [first, last].some((score) => Math.abs(margin(score, label)) < nearTieMargin);
    const common = { before: first, nearTie, exhausted: false, space: measureSpace(original, candidates) };
    if (isMisclassified(first, label))
      return createAttackResult(id, label, { ...common, outcome: "skipped", queries: 1, text: original, after: first });
    return createAttackResult(id, label, {
      ...common,
      outcome: isMisclassified(last, label) ? "success" : "failed",
      queries: options.innerSteps + extraQueries,
      text: final[i]!,
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

/** The words that change, those with the largest mixture weights first. */
function selectChanges({ replacementIndices, mixtureWeights }: HullSelection): { row: number; choice: number }[] {
  return [...replacementIndices]
    .map((choice, row) => ({ row, choice }))
    .filter(({ choice }) => choice !== 0)
    .sort((a, b) => mixtureWeights[b.row]! - mixtureWeights[a.row]! || a.row - b.row);
}

/** Applies changes in order, as long as the constraints allow them together. */
function applyAllowed(original: EditedText, changes: readonly EditedText[], { constraints }: Recipe): EditedText {
  let text = original;
  for (const { edit } of changes) {
    const next = text.apply(edit!);
    if (constraints.every((constraint) => constraint.allows?.(next, original) ?? true)) text = next;
  }
  return text;
}
