import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { getErrorMessage, UserError } from "../base/errors.js";
import { sha256File } from "../base/files.js";
import { parseSpec } from "../base/spec.js";
import { importDefault, isModulePath, type Reference } from "../base/trust.js";
import { type SourceLocation, typedString, validate } from "../base/validate.js";
import {
  type Attack,
  type AttackDefinition,
  createAttack,
  getNeeds,
  type ReadyAttack,
  usesGradients,
} from "./define-attack.js";
import type { Constraint } from "./protocol.js";
import { type AttackName, attacks } from "./recipes/index.js";
import { type AttackResources, type ResourceName, resourceFacts } from "./resources.js";

export const attackNames = [...attacks.keys()] as readonly AttackName[];

/**
 * An attack in one text: its name, its name with options, or a module.
 *
 *     const attacks: AttackReference[] = ["pwws", "genetic:population=20", "./mine.js"];
 */
export type AttackReference = Reference<AttackName>;

/**
 * One attack as data: `"pwws"`, `"genetic:population=20"`, `{ name, options }` or a value such as
 * `textfooler({ target: "positive" })`. The name may be the path of a custom attack (.js). It is
 * normalized to `{ name, options }`.
 *
 * @example
 * attackSpecSchema.parse("genetic:population=20");
 * // { name: "genetic", options: { population: 20 } }
 */
export const attackSpecSchema = z.union(
  [
    typedString<AttackReference>().transform((text): Omit<Attack, "definition"> & Partial<Attack> =>
      parseSpec(text, "--attack"),
    ),
    z.strictObject({
      name: z.string(),
      options: z.record(z.string(), z.unknown()).default({}),
      definition: z.custom<AttackDefinition>(isDefinition).optional(),
    }),
  ],
  { error: 'expected an attack ("pwws", "genetic:population=20", textfooler({ … })) or { name, options }' },
);

/**
 * Finds a built-in attack, or loads a custom one by the path of its file, whose default export is
 * an attack of `defineAttack`. Checks the options.
 *
 * @example
 * const genetic = await loadAttack("genetic:population=20");
 * const custom = await loadAttack({ name: "./my-attack.js", options: { samples: 5 } });
 */
export async function loadAttack(attack: string | z.input<typeof attackSpecSchema>): Promise<Attack> {
  const { name, options, definition } = validate(attackSpecSchema, attack, "attack");
  const found = definition ?? attacks.get(name);
  if (found) return createAttack(found, options);
  if (!isModulePath(name))
    throw new UserError(
      `attack: unknown attack "${name}"${didYouMean(name, attackNames)}. Use one of ${attackNames.join(", ")}, ` +
        "or the path of a custom attack (.js).",
    );
  return { ...createAttack(await importDefinition(name), options), source: await sha256File(name) };
}

async function importDefinition(path: string): Promise<AttackDefinition> {
  const definition = await importDefault(path, "attack");
  if (isDefinition(definition)) return definition;
  throw new UserError(
    `attack ${path}: expected a default export of defineAttack({ name, options, resources, build }), received ` +
      `${typeof definition}`,
  );
}

function isDefinition(value: unknown): value is AttackDefinition {
  const isObject = (typeof value === "object" && value !== null) || typeof value === "function";
  return isObject && ["name", "options", "resources", "build"].every((key) => key in value);
}

/**
 * Rejects an unknown attack or invalid options before a victim is loaded, and returns the name of
 * the attack. `locate` names the source of each key.
 */
export async function checkAttack(
  name: string,
  options: Readonly<Record<string, unknown>>,
  locate: Exclude<SourceLocation, string>,
): Promise<string> {
  const builtIn = attacks.get(name);
  if (builtIn) {
    validate(builtIn.options, options, (path) => `${locate(path)}: attack ${name}`);
    return name;
  }
  const loaded = await loadAttack({ name, options }).catch((error: unknown) => {
    throw new UserError(`${locate([])}: ${getErrorMessage(error)}`, { cause: error });
  });
  return loaded.name;
}

export function listResources({ definition, options }: Attack): ResourceName[] {
  return [...getNeeds(definition, options), ...(definition.optional ?? [])];
}

/**
 * Gives an attack its resources. `constraints` are those of the request, which come before its own.
 *
 * @example
 * const attack = equipAttack(deepwordbug(), { labels: ["ham", "spam"] });
 */
export function equipAttack(
  attack: Attack,
  resources: Partial<AttackResources>,
  constraints: readonly Constraint[] = [],
): ReadyAttack {
  const { name, options, definition } = attack;
  const missing = getNeeds(definition, options).find((resource) => resources[resource] === undefined);
  if (missing)
    throw new UserError(`attack ${name} needs ${resourceFacts[missing].title}. ${resourceFacts[missing].hint}`);
  const recipe = definition.build(options, resources as AttackResources);
  const all = [...constraints, ...recipe.constraints];
  const canUseGradients = definition.optional?.includes("gradient") ?? false;
  return {
    name,
    options,
    hasBudget: definition.hasBudget ?? false,
    isChecked: definition.isChecked ?? false,
    isWhiteBox: usesGradients(definition) || (canUseGradients && resources.gradient !== undefined),
    // Constraints that ask no resource are the cheapest, so they reject first.
    recipe: { ...recipe, constraints: [...all.filter((each) => !each.filter), ...all.filter((each) => each.filter)] },
    hashes: hashResources(attack, resources),
  };
}

/** The names of resources in journals, if they differ. */
const hashNames: Partial<Record<ResourceName, string>> = {
  caseInsensitiveSubstitutes: "substitutions",
  lmConstraint: "languageModel",
};

function hashResources(attack: Attack, resources: Partial<AttackResources>): Record<string, string> {
  const hashes = listResources(attack).flatMap((name) => {
    const part = resources[name];
    return part && "hash" in part ? [[hashNames[name] ?? name, part.hash] as const] : [];
  });
  return { ...Object.fromEntries(hashes), ...(attack.source !== undefined && { search: attack.source }) };
}
