import { getErrorMessage, UserError } from "../base/errors.js";
import type { Rng } from "../base/rng.js";
import type { Accuracy } from "../models/inference/predictor.js";
import { logitMargin, type Score } from "../models/inference/score.js";
import type { Example } from "../tasks/example.js";
import type { SpaceSize } from "../text/replacements.js";
import type { EditedText } from "./edited-text.js";
import { isMisclassified, margin, nearTieMargin } from "./goals.js";
import {
  type Candidate,
  type Constraint,
  type HiddenWord,
  type Problem,
  type Recipe,
  type ScoredText,
  type SearchGenerator,
  Unproven,
} from "./protocol.js";
import type { ResourceGenerator, ResourceRequest } from "./requests.js";
import { type AttackResult, createAttackResult, measureSpace } from "./result.js";

export interface Query {
  readonly text: EditedText;
  readonly hidden?: HiddenWord | undefined;
  /** A score that is recorded, or that proves something, is exact. One that only ranks words may be rough. */
  readonly accuracy: Accuracy;
}

/** Texts for the victim, or inputs for a resource. No texts at all are a pause between two steps. */
export type RecipeGenerator<Result> = Generator<readonly Query[] | ResourceRequest, Result, readonly unknown[]>;

/**
 * Attacks one example with a recipe: scores the original text, runs the search within the query
 * budget, and scores the final text. A search can work long before it has texts to score. It
 * pauses when `isPauseDue`.
 */
export function* runRecipe(
  { id, label }: Pick<Example, "id" | "label">,
  original: EditedText,
  { name, recipe }: { readonly name: string; readonly recipe: Recipe },
  rng: Rng,
  budget = Number.POSITIVE_INFINITY,
  isPauseDue: () => boolean = () => false,
): RecipeGenerator<AttackResult> {
  const { goal, search } = recipe;
  if (!("run" in search)) throw new UserError(`attack ${name}: expected a search with a function run`);
  const [before] = (yield [{ text: original, accuracy: "exact" }]) as readonly [Score];
  const tally = new Tally(recipe, label, original, before);
  tally.add([{ text: original }], [before]);
  const draws = rng.fork("transformations");
  const space = yield* findSpace(recipe, original, draws);
  const common = { before, space, ...(goal.name !== "untargeted" && { goal: goal.name }) };
  const stop = (outcome: "skipped" | "failed") =>
    createAttackResult(id, label, {
      ...common,
      ...tally.counts,
      outcome,
      exhausted: false,
      text: original,
      after: before,
      ...(outcome === "failed" && { isAttacked: false as const }),
    });
  if (isMisclassified(before, label)) return stop("skipped");
  if (goal.attacksLabel?.(label) === false) return stop("failed");

  const problem: Problem = {
    id,
    label,
    original: tally.best,
    budget,
    isMaximized: goal.isMaximized ?? false,
    findOpenPositions: (text) => findOpenPositions(recipe, text),
    isAllowed: (text) => recipe.constraints.every((constraint) => constraint.allows?.(text, original) ?? true),
  };
  let found: SearchEnd;
  try {
    const accuracy: Accuracy = search.proves ? "exact" : { label };
    found = yield* drive(search.run(problem, rng), tally, accuracy, budget, draws, isPauseDue);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`attack ${name}: the search failed on example ${id}: ${getErrorMessage(error)}`, {
      cause: error,
    });
  }
  const { text, exhausted, isComplete } = found;
  const [after] = (yield [{ text, accuracy: "exact" }]) as readonly [Score];
  tally.checkTie(after);
  return createAttackResult(id, label, {
    ...common,
    ...tally.counts,
    ...(search.proves && { exact: isComplete }),
    // A text that keeps its class has not fooled the victim, however small it is.
    outcome: !goal.isMaximized && goal.isReached(after, label, text) ? "success" : "failed",
    exhausted,
    text,
    after,
  });
}

interface SearchEnd {
  readonly text: EditedText;
  /** True if the query budget ended it. */
  readonly exhausted: boolean;
  /** True if it has tried everything, or has succeeded. */
  readonly isComplete: boolean;
}

/** Answers the requests of a search until it ends or the budget is spent. */
function* drive(
  search: SearchGenerator<EditedText | Unproven>,
  tally: Tally,
  accuracy: Accuracy,
  budget: number,
  draws: Rng,
  isPauseDue: () => boolean,
): RecipeGenerator<SearchEnd> {
  const { recipe } = tally;
  let step = search.next([]);
  while (!step.done) {
    const asked = step.value;
    if (isPauseDue()) yield [];
    if (!("kind" in asked)) step = search.next(yield asked);
    else if (asked.kind === "expand") {
      const { text, positions, only } = asked;
      const transformations = recipe.transformations.filter(({ kind }) => only === undefined || kind === only);
      step = search.next(yield* expandText({ ...recipe, transformations }, text, positions, draws));
    } else {
      const affordable = asked.candidates.slice(0, budget - tally.queries);
      const queries = affordable.map(({ text, hidden }): Query => {
        return { text, hidden, accuracy: hidden ? "rough" : accuracy };
      });
      const scores = queries.length > 0 ? ((yield queries) as readonly Score[]) : [];
      const scored = tally.add(affordable, scores);
      if (affordable.length < asked.candidates.length)
        return { text: tally.best.text, exhausted: true, isComplete: false };
      step = search.next(scored);
    }
  }
  const { value } = step;
  const isComplete = !(value instanceof Unproven);
  return { text: isComplete ? value : value.text, exhausted: false, isComplete };
}

/**
 * The size of the space. The candidates of a recipe depend on the text so far, except for those of
 * a table, so only their number is known.
 */
function* findSpace(parts: Recipe, original: EditedText, draws: Rng): ResourceGenerator<SpaceSize> {
  const positions = findOpenPositions(parts, original);
  if (parts.transformations.every(({ isTable }) => isTable))
    return measureSpace(original, yield* expandText(parts, original, positions, draws));
  return { words: original.length, modifiableWords: positions.length, substitutes: 0, log10Combinations: 0 };
}

/** The positions that some transformation may change. */
export function findOpenPositions(
  { transformations, constraints }: Pick<Recipe, "transformations" | "constraints">,
  text: EditedText,
): number[] {
  const closing = constraints.filter(({ isOpen }) => isOpen);
  const positions = Array.from({ length: text.length }, (_, position) => position);
  if (closing.length === 0) return positions;
  const kinds = [...new Set(transformations.map(({ kind }) => kind))];
  return positions.filter((position) =>
    kinds.some((kind) => closing.every((constraint) => constraint.isOpen!(text, position, kind))),
  );
}

/**
 * Transforms a text and removes what the constraints forbid. Candidates of a table are in its
 * order; others are in alphabetical order, so that ties do not depend on the order of the
 * transformations.
 */
export function* expandText(
  { transformations, constraints }: Pick<Recipe, "transformations" | "constraints">,
  text: EditedText,
  positions: readonly number[],
  rng: Rng,
): ResourceGenerator<readonly EditedText[]> {
  const found = new Map<string, EditedText>();
  const isTable = transformations.every((each) => each.isTable);
  // Different substitutes of a table are different texts. Comparing the texts themselves would take quadratic time.
  const key = (candidate: EditedText): string => {
    const { edit } = candidate;
    return isTable && edit?.kind === "replace" ? `${edit.position} ${edit.word}` : candidate.texts.join("\n");
  };
  for (const transformation of transformations) {
    const isOpen = (position: number): boolean =>
      constraints.every((constraint) => constraint.isOpen?.(text, position, transformation.kind) ?? true);
    const open = positions.filter(isOpen);
    if (open.length === 0) continue;
    const made = transformation.apply(text, open, rng);
    for (const candidate of Array.isArray(made) ? made : yield* made) {
      const { edit } = candidate;
      // A merge also deletes the next word.
      if (edit?.kind === "merge" && !isOpen(edit.position + 1)) continue;
      if (isTable && edit?.kind === "replace" && edit.word === text.getWord(edit.position)) continue;
      const name = key(candidate);
      if (!found.has(name)) found.set(name, candidate);
    }
  }
  found.delete(key(text));
  const allowed = yield* filterCandidates([...found.values()], text, constraints);
  if (isTable) return allowed;
  return [...allowed].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

function* filterCandidates(
  candidates: readonly EditedText[],
  current: EditedText,
  constraints: readonly Constraint[],
): ResourceGenerator<readonly EditedText[]> {
  let allowed = candidates;
  for (const constraint of constraints) {
    if (allowed.length === 0) break;
    if (constraint.allows) allowed = allowed.filter((candidate) => constraint.allows!(candidate, current));
    if (constraint.filter && allowed.length > 0) allowed = yield* constraint.filter(allowed, current);
  }
  return allowed;
}

/** Counts queries as the sequential algorithm would, and keeps the best text. */
class Tally {
  queries = 0;
  best: ScoredText;
  #nearTie = false;
  #ties = 0;

  constructor(
    readonly recipe: Recipe,
    readonly label: number,
    original: EditedText,
    readonly before: Score,
  ) {
    this.best = { text: original, value: Number.NEGATIVE_INFINITY, isReached: false };
  }

  get counts(): { queries: number; nearTie: boolean; ties: number } {
    return { queries: this.queries, nearTie: this.#nearTie, ties: this.#ties };
  }

  add(candidates: readonly Candidate[], scores: readonly Score[]): ScoredText[] {
    const { goal } = this.recipe;
    let isOver = false;
    /** Texts by logit margin. The search cannot tell texts with equal margins apart. */
    const known = new Map<number, EditedText>();
    return candidates.map(({ text, hidden, sequential = false }, i) => {
      const score = scores[i]!;
      const value = goal.computeValue(score, this.label, text, this.before);
      const scored = { text, value, isReached: goal.isReached(score, this.label, text) };
      if (sequential && isOver) return scored;
      this.queries++;
      if (hidden) return scored;
      this.checkTie(score);
      const logit = logitMargin(score, this.label);
      const same = known.get(logit);
      if (same && !same.isEqual(text)) this.#ties++;
      known.set(logit, same ?? text);
      if (value > this.best.value) this.best = scored;
      isOver ||= scored.isReached;
      return scored;
    });
  }

  /** Records whether the margin of a score is a near tie. */
  checkTie(score: Score): void {
    this.#nearTie ||= Math.abs(margin(score, this.label)) < nearTieMargin;
  }
}

/** The text that a victim reads: with something else in the place of a hidden word. */
export function getReadText({ text, hidden }: Pick<Query, "text" | "hidden">, unkToken: string): EditedText {
  if (!hidden) return text;
  const { position, shown } = hidden;
  if (shown === null) return text.apply({ kind: "delete", position });
  if ("word" in shown) return text.apply({ kind: "replace", position, word: shown.word });
  return text.hideWord(position, unkToken);
}

/** The characters of the text that a victim reads. */
export function renderQuery(query: Pick<Query, "text" | "hidden">, unkToken: string): readonly string[] {
  return getReadText(query, unkToken).texts;
}
