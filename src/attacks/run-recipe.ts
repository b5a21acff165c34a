import type { Rng } from "../tensor/random.js";
import { EditedText } from "./edited-text.js";
import type {
  Constraint,
  EditProblem,
  Recipe,
  ResourceGenerator,
  ResourceRequest,
  ScoredText,
  SearchGenerator,
  TextCandidate,
} from "./recipe.js";
import { type AttackResult, createRecipeResult } from "./result.js";
import { isMisclassified, margin, nearTieMargin, type Score } from "./search.js";

/** An example as a recipe attacks it. */
export interface RecipeExample {
  readonly id: string;
  readonly label: number;
  readonly text: EditedText;
  /** Whether the constraints allow any change. */
  readonly isModifiable: boolean;
}

/** Prepares an example for a recipe. */
export function createRecipeExample(
  { id, label, texts }: { readonly id: string; readonly label: number; readonly texts: readonly string[] },
  { recipe }: RecipeAttack,
): RecipeExample {
  const text = EditedText.create(texts);
  return { id, label, text, isModifiable: findOpenPositions(recipe, text).length > 0 };
}

/** A recipe that is ready to run, with validated options. */
export interface RecipeAttack {
  readonly name: string;
  /** The validated options, for the journal. */
  readonly options: unknown;
  readonly hasBudget: boolean;
  readonly recipe: Recipe;
  /** SHA-256 of the resources, for the journal. */
  readonly hashes: Readonly<Record<string, string>>;
}

/** Texts for the victim, or inputs for a resource. */
export type RecipeGenerator<Result> = Generator<readonly TextCandidate[] | ResourceRequest, Result, readonly unknown[]>;

/**
 * Attacks one example with a recipe: scores the original text, runs the search within the query
 * budget, and scores the final text.
 */
export function* runRecipe(
  { id, label, text: original }: RecipeExample,
  { recipe }: RecipeAttack,
  rng: Rng,
  budget = Number.POSITIVE_INFINITY,
): RecipeGenerator<AttackResult> {
  const { goal } = recipe;
  const [before] = (yield [{ text: original, isRecorded: true }]) as readonly [Score];
  const modifiableWords = findOpenPositions(recipe, original).length;
  const tally = new Tally(recipe, label, original);
  tally.add([{ text: original }], [before]);
  const common = { before, modifiableWords, ...(goal.name !== "untargeted" && { goal: goal.name }) };
  const stop = (outcome: "skipped" | "failed") =>
    createRecipeResult(id, label, {
      ...{ ...common, ...tally.counts, outcome, exhausted: false, text: original, after: before },
      ...(outcome === "failed" && { isAttacked: false as const }),
    });
  if (isMisclassified(before, label)) return stop("skipped");
  if (goal.attacksLabel?.(label) === false) return stop("failed");

  const problem: EditProblem = {
    id,
    label,
    original: tally.best,
    isMaximized: goal.isMaximized ?? false,
    findOpenPositions: (text) => findOpenPositions(recipe, text),
    isAllowed: (text) => recipe.constraints.every((constraint) => constraint.allows?.(text, original) ?? true),
  };
  const { text, exhausted } = yield* drive(recipe.search.run(problem, rng.fork("search")), recipe, tally, budget, rng);
  const [after] = (yield [{ text, isRecorded: true }]) as readonly [Score];
  tally.checkTie(after);
  // A text that keeps its class has not fooled the victim, however small it is.
  const outcome = !goal.isMaximized && goal.isReached(after, label, text) ? "success" : "failed";
  return createRecipeResult(id, label, { ...common, ...tally.counts, outcome, exhausted, text, after });
}

/** Answers the requests of a search until it ends or the budget is spent. */
function* drive(
  search: SearchGenerator,
  recipe: Recipe,
  tally: Tally,
  budget: number,
  rng: Rng,
): RecipeGenerator<{ readonly text: EditedText; readonly exhausted: boolean }> {
  const draws = rng.fork("transformations");
  let step = search.next([]);
  while (!step.done) {
    const asked = step.value;
    if (!("kind" in asked)) step = search.next(yield asked);
    else if (asked.kind === "expand") {
      const { text, positions, only } = asked;
      const transformations = recipe.transformations.filter(({ kind }) => only === undefined || kind === only);
      step = search.next(yield* expandText({ ...recipe, transformations }, text, positions, draws));
    } else {
      const affordable = asked.candidates.slice(0, budget - tally.queries);
      const scores = affordable.length > 0 ? ((yield affordable) as readonly Score[]) : [];
      const scored = tally.add(affordable, scores);
      if (affordable.length < asked.candidates.length) return { text: tally.best.text, exhausted: true };
      step = search.next(scored);
    }
  }
  return { text: step.value, exhausted: false };
}

/** The positions that some transformation may change. */
function findOpenPositions({ transformations, constraints }: Recipe, text: EditedText): number[] {
  const kinds = new Set(transformations.map(({ kind }) => kind));
  return [...Array(text.length).keys()].filter((position) =>
    [...kinds].some((kind) => constraints.every((constraint) => constraint.isOpen?.(text, position, kind) ?? true)),
  );
}

/**
 * Transforms a text and removes what the constraints forbid. Candidates are in alphabetical order,
 * so that ties do not depend on the order of the transformations.
 */
export function* expandText(
  { transformations, constraints }: Pick<Recipe, "transformations" | "constraints">,
  text: EditedText,
  positions: readonly number[],
  rng: Rng,
): ResourceGenerator<readonly EditedText[]> {
  const found = new Map<string, EditedText>();
  const key = ({ texts }: EditedText): string => texts.join("\n");
  for (const transformation of transformations) {
    const isOpen = (position: number): boolean =>
      constraints.every((constraint) => constraint.isOpen?.(text, position, transformation.kind) ?? true);
    const open = positions.filter(isOpen);
    if (open.length === 0) continue;
    const made = transformation.apply(text, open, rng);
    for (const candidate of Array.isArray(made) ? made : yield* made) {
      // A merge also deletes the next word.
      if (candidate.edit?.kind === "merge" && !isOpen(candidate.edit.position + 1)) continue;
      const name = key(candidate);
      if (!found.has(name)) found.set(name, candidate);
    }
  }
  found.delete(key(text));
  const allowed = yield* filterCandidates([...found.values()], text, constraints);
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

/** Counts queries and keeps the best text. */
class Tally {
  queries = 0;
  best: ScoredText;
  #nearTie = false;

  constructor(
    readonly recipe: Recipe,
    readonly label: number,
    original: EditedText,
  ) {
    this.best = { text: original, value: Number.NEGATIVE_INFINITY, isReached: false };
  }

  get counts(): { queries: number; nearTie: boolean } {
    return { queries: this.queries, nearTie: this.#nearTie };
  }

  add(candidates: readonly TextCandidate[], scores: readonly Score[]): ScoredText[] {
    const { goal } = this.recipe;
    return candidates.map(({ text, mask, isProbe = mask !== undefined }, i) => {
      const score = scores[i]!;
      const value = goal.computeValue(score, this.label, text);
      const scored = { text, value, isReached: goal.isReached(score, this.label, text) };
      this.queries++;
      if (isProbe) return scored;
      this.checkTie(score);
      if (value > this.best.value) this.best = scored;
      return scored;
    });
  }

  /** Records whether the margin of a score is a near tie. */
  checkTie(score: Score): void {
    this.#nearTie ||= Math.abs(margin(score, this.label)) < nearTieMargin;
  }
}
