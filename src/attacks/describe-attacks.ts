import { describeOptions } from "../base/describe-options.js";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { type AttackDefinition, getNeeds, usesGradients } from "./define-attack.js";
import { attackNames } from "./load-attack.js";
import { attacks } from "./recipes/index.js";
import { type AttackResources, resourceFacts } from "./resources.js";

/** Describes a built-in attack by name; without a name, all of them. */
export function describeAttacks(name?: string) {
  if (name !== undefined && !attacks.has(name))
    throw new UserError(`Unknown attack "${name}"${didYouMean(name, attackNames)}. Run temper attacks to list them.`);
  return (name === undefined ? [...attacks.values()] : [attacks.get(name)!]).map(describeAttack);
}

/** An attack for people: its purpose, its parts, what it needs and costs, and its options. */
export function describeAttack(definition: AttackDefinition) {
  const { name, summary, paper, options, differences = null } = definition;
  const parsed = options.parse({});
  const needs = getNeeds(definition, parsed);
  // Resources are only used when the attack runs, so their names are enough to describe it.
  const named = Object.fromEntries(needs.map((each) => [each, { name: each }]));
  const shown = { ...named, labels: ["the benign class"] } as unknown as AttackResources;
  const { goal, transformations, constraints, search } = definition.build(parsed, shown);
  return {
    name,
    summary,
    paper,
    isWhiteBox: usesGradients(definition),
    goal: goal.name,
    /** Its differences from the paper; null if there are none. */
    differences,
    transformations: transformations.map((each) => each.name),
    constraints: constraints.map((each) => each.name),
    search: search.name,
    cost: search.cost,
    resources: [...new Set(needs.flatMap((each) => resourceFacts[each].title ?? []))],
    options: describeOptions(options),
  };
}
