import type { z } from "zod";
import type { Rng } from "../tensor/random.js";
import type { EditedText } from "./edited-text.js";
import type { Goal } from "./goals/goal.js";
import type { RecipeResources, ResourceName } from "./resources.js";

/** The kinds of resources, whose costs are reported separately. */
export const resourceKinds = ["encoder", "mlm", "tagger", "gradient"] as const;

/**
 * Something besides the victim that answers for many inputs at once: a sentence encoder, a masked
 * language model, gradients. The pool collects the inputs of all searches into one call.
 */
export interface Resource<Input = never, Output = unknown> {
  readonly name: string;
  readonly kind: (typeof resourceKinds)[number];
  compute(inputs: readonly Input[]): Promise<readonly Output[]>;
}

/** Inputs for a resource. The answer has one output per input. */
export interface ResourceRequest {
  readonly resource: Resource;
  readonly inputs: readonly unknown[];
}

/** A computation that may need resources. */
export type ResourceGenerator<Result> = Generator<ResourceRequest, Result, readonly unknown[]>;

/** Requests outputs of a resource. Use it as `yield* request(…)`. */
export function* request<Input, Output>(
  resource: Resource<Input, Output>,
  inputs: readonly Input[],
): ResourceGenerator<readonly Output[]> {
  return (yield { resource: resource as unknown as Resource, inputs }) as readonly Output[];
}

/** What a transformation does to a word. Some constraints apply to swaps only. */
export type TransformationKind = "swap" | "insert" | "delete" | "merge" | "append" | "text";

/** Changes a text at some positions: the candidates before any constraint. */
export interface Transformation {
  readonly name: string;
  readonly kind: TransformationKind;
  apply(text: EditedText, positions: readonly number[], rng: Rng): EditedText[] | ResourceGenerator<EditedText[]>;
}

/** Limits what an attack may do. A constraint has one of the three functions, or several. */
export interface Constraint {
  readonly name: string;
  /** Whether a word may change. */
  isOpen?(text: EditedText, position: number, kind: TransformationKind): boolean;
  /** Whether a candidate, made from the current text, is allowed. */
  allows?(candidate: EditedText, current: EditedText): boolean;
  /** The same for all candidates of a text, with the help of a resource. */
  filter?(candidates: readonly EditedText[], current: EditedText): ResourceGenerator<readonly EditedText[]>;
}

/** A text to score; with `mask`, one of its words is read as the unknown token. */
export interface TextCandidate {
  readonly text: EditedText;
  readonly mask?: number;
  /** True if the text only measures the importance of a word, and is not a possible result. */
  readonly isProbe?: boolean;
  /** Whether the score is recorded in the result: that of the original or of the final text. */
  readonly isRecorded?: boolean;
}

/** A text with the value that the goal gives it. */
export interface ScoredText {
  readonly text: EditedText;
  /** Higher is closer to the goal. */
  readonly value: number;
  readonly isReached: boolean;
}

/** What a search may ask for. */
export type SearchRequest =
  | { readonly kind: "score"; readonly candidates: readonly TextCandidate[] }
  | {
      readonly kind: "expand";
      readonly text: EditedText;
      readonly positions: readonly number[];
      /** Only transformations of this kind; default: all. */
      readonly only?: TransformationKind | undefined;
    }
  | ResourceRequest;

export type SearchGenerator<Result = EditedText> = Generator<SearchRequest, Result, readonly unknown[]>;

/** One example as a search sees it. */
export interface EditProblem {
  readonly id: string;
  readonly label: number;
  /** The original text with its value. */
  readonly original: ScoredText;
  /** True if the search goes on after the goal is reached, until nothing improves the value. */
  readonly isMaximized: boolean;
  /** The positions that the constraints allow to change. */
  findOpenPositions(text: EditedText): number[];
  /** Whether a text that was combined from others satisfies the constraints on its words. */
  isAllowed(text: EditedText): boolean;
}

/**
 * The search method of a recipe. It asks for candidates and for scores, and returns the text that
 * it decides on. It knows neither model nor batches.
 */
export interface EditSearch {
  readonly name: string;
  /** Queries per example, in words. */
  readonly cost: string;
  run(problem: EditProblem, rng: Rng): SearchGenerator;
}

/** Scores candidates. Use it as `yield* score(…)`. */
export function* score(candidates: readonly TextCandidate[]): SearchGenerator<readonly ScoredText[]> {
  if (candidates.length === 0) return [];
  return (yield { kind: "score", candidates }) as readonly ScoredText[];
}

/** Lists the allowed candidates of a text at some positions. Use it as `yield* expand(…)`. */
export function* expand(
  text: EditedText,
  positions: readonly number[],
  only?: TransformationKind,
): SearchGenerator<readonly EditedText[]> {
  if (positions.length === 0) return [];
  return (yield { kind: "expand", text, positions, only }) as readonly EditedText[];
}

/** Scores all candidates of a text at some positions, best first. Equal values keep their order. */
export function* scoreCandidates(
  text: EditedText,
  positions: readonly number[],
  only?: TransformationKind,
): SearchGenerator<ScoredText[]> {
  const candidates = yield* expand(text, positions, only);
  const scored = yield* score(candidates.map((candidate) => ({ text: candidate })));
  return [...scored].sort((a, b) => b.value - a.value);
}

/** The four parts of an attack. */
export interface Recipe {
  readonly goal: Goal;
  readonly transformations: readonly Transformation[];
  readonly constraints: readonly Constraint[];
  readonly search: EditSearch;
}

/** A recipe with its options: one file in `recipes/` per paper. */
export interface RecipeDefinition<Options = unknown, Needs extends ResourceName = ResourceName> {
  readonly name: string;
  readonly summary: string;
  readonly paper: string;
  readonly options: z.ZodType<Options>;
  /** What it needs besides the victim. */
  readonly resources: readonly Needs[];
  /** True if it uses a masked language model, but can also run without one. */
  readonly usesMaskedLm?: boolean;
  /** True if the search has its own budget. */
  readonly hasBudget?: boolean;
  /** How Temper's version differs from the paper, in one sentence. */
  readonly differences?: string;
  build(options: Options, resources: Pick<RecipeResources, Needs> & Partial<Pick<RecipeResources, "mlm">>): Recipe;
}

/** Checks a definition against its own options and resources. */
export function defineRecipe<Options, Needs extends ResourceName>(
  definition: RecipeDefinition<Options, Needs>,
): RecipeDefinition {
  // The compiler has checked `build` against the options and resources of this definition.
  return definition as unknown as RecipeDefinition;
}
