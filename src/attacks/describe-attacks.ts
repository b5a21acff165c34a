import { describeOptions, type OptionDescription } from "../describe-options.js";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { attackNames, getAttackOptions } from "./load-attack.js";
import { recipes } from "./recipes/index.js";
import type { RecipeResources, ResourceName } from "./resources.js";

/** An attack for people: what it does, its parts, what it needs and costs, and its options. */
export interface AttackDescription {
  readonly name: string;
  readonly summary: string;
  readonly paper: string;
  readonly goal: string;
  readonly transformations: readonly string[];
  readonly constraints: readonly string[];
  readonly search: string;
  /** Queries per example, in words. */
  readonly cost: string;
  readonly resources: readonly string[];
  /** How it differs from the paper; null if it does not. */
  readonly differences: string | null;
  readonly options: readonly OptionDescription[];
}

/** What a recipe needs, for people. */
const resourceNames: Readonly<Record<ResourceName, string | null>> = {
  neighbors: "neighbors of words (--substitutions or --vectors; default: WordNet)",
  wordnet: "WordNet",
  encoder: "a sentence encoder (--sentence-encoder; default: MiniLM)",
  mlm: "a masked language model (--masked-lm)",
  gradient: "gradients, so only local models",
  labels: null,
};

interface SubstitutionAttack {
  readonly summary: string;
  readonly paper: string;
  readonly search: string;
  readonly cost: string;
}

/** The attacks over the replacements of a substitution table. */
const substitutionAttacks: Readonly<Record<string, SubstitutionAttack>> = {
  pwws: {
    summary: "the best substitute of each word, in the order of effect times saliency",
    paper: "Ren et al. 2019, Probability Weighted Word Saliency (P19-1103)",
    search: "greedy, words ranked by weighted saliency",
    cost: "1 + words + the substitutes of all words + changed words",
  },
  genetic: {
    summary: "a genetic algorithm over substitutes, in RIFT's setting",
    paper: "Alzantot et al. 2018 (arXiv:1804.07998), as evaluated by Dong et al. 2021",
    search: "genetic, 60 texts and 40 generations",
    cost: "population x substitutes of a word, per generation",
  },
  greedy: {
    summary: "one pass from left to right, each word takes its best substitute",
    paper: "a baseline",
    search: "greedy in the order of the text",
    cost: "1 + the substitutes of all words",
  },
  random: {
    summary: "random substitutes: the baseline that every attack must beat",
    paper: "a baseline",
    search: "random",
    cost: "100",
  },
  exhaustive: {
    summary: "every combination of substitutes, exact for short texts",
    paper: "a baseline",
    search: "all combinations, those with the fewest changes first",
    cost: "up to 20,000",
  },
  ascc: {
    summary: "gradient search in the convex hull of the substitutes (white box)",
    paper: "Dong et al. 2021, Towards Robustness Against Natural Language Word Substitutions",
    search: "gradient ascent on mixtures of substitutes",
    cost: "12",
  },
};

/** Describes an attack by name; without a name, all of them. */
export function describeAttacks(name?: string): AttackDescription[] {
  if (name !== undefined && !attackNames.includes(name))
    throw new UserError(`Unknown attack "${name}"${didYouMean(name, attackNames)}. Run temper attacks to list them.`);
  return (name === undefined ? attackNames : [name]).map((each) =>
    recipes.has(each) ? describeRecipe(each) : describeSubstitutionAttack(each),
  );
}

function describeSubstitutionAttack(name: string): AttackDescription {
  return {
    name,
    ...substitutionAttacks[name]!,
    goal: "untargeted",
    transformations: ["up to 8 substitutes of a word"],
    constraints: [],
    resources: ["substitutions of words (--substitutions)", ...(name === "ascc" ? [resourceNames.gradient!] : [])],
    differences: null,
    options: describeOptions(getAttackOptions(name)!),
  };
}

function describeRecipe(name: string): AttackDescription {
  const { summary, paper, options, resources, differences = null, build } = recipes.get(name)!;
  // Resources are only used when the recipe runs, so their names are enough to describe it.
  const named = Object.fromEntries(Object.keys(resourceNames).map((each) => [each, { name: each }]));
  const shown = { ...named, labels: ["the benign class"] } as unknown as RecipeResources;
  const required = name === "evasion" ? { benignLabel: 0 } : {};
  const { goal, transformations, constraints, search } = build(options.parse(required), shown);
  return {
    ...{ name, summary, paper, goal: goal.name, differences },
    transformations: transformations.map((each) => each.name),
    constraints: constraints.map((each) => each.name),
    ...{ search: search.name, cost: search.cost },
    resources: resources.flatMap((each) => resourceNames[each] ?? []),
    options: describeOptions(options),
  };
}
