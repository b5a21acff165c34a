import type { z } from "zod";
import type { Search, SearchProblem } from "./search.js";

/** A search with its name and the schema of its options: what a file in this folder, or a user's own file, exports. */
export interface AttackDefinition<Options = unknown> {
  readonly name: string;
  readonly options: z.ZodType<Options>;
  /** True where the search stops at a budget of its own, so that late successes are a sign that a larger one would find more. */
  readonly hasBudget: boolean;
  /** True where it keeps to the swaps that a language model allows, if there are any. */
  readonly usesLanguageModel?: boolean;
  search(options: Options): Search;
  /** Whether a failure on this problem proves that no substitution fools the victim. */
  exact?(options: Options): (problem: SearchProblem) => boolean;
}

/** A search ready to run, its options resolved. */
export interface Attack {
  readonly name: string;
  /** The resolved options, for the journal. */
  readonly options: unknown;
  /** SHA-256 of the file of a user's own search; undefined for those built in. */
  readonly source?: string;
  readonly hasBudget: boolean;
  readonly usesLanguageModel?: boolean;
  readonly search: Search;
  readonly exact?: (problem: SearchProblem) => boolean;
}
