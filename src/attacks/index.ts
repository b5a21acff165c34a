import { basename, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { didYouMean } from "../did-you-mean.js";
import { getErrorMessage, UserError } from "../errors.js";
import { sha256File } from "../files.js";
import { type SourceLocation, validate } from "../validate.js";
import { createAsccAttacker, type GradientVictim } from "./ascc-attack.js";
import { hullSchema } from "./ascc-search.js";
import type { Attack, AttackDefinition } from "./attack-definition.js";
import type { Attacker } from "./attacker.js";
import { exhaustive } from "./exhaustive.js";
import { genetic } from "./genetic.js";
import { greedy } from "./greedy.js";
import { pwws } from "./pwws.js";
import { random } from "./random.js";
import type { Search } from "./search.js";

// Each definition is checked against its own options above; here they are of one kind.
const definitions = [pwws, genetic, greedy, random, exhaustive] as unknown as readonly AttackDefinition[];

/** White-box attacks, by name: they need a model at hand, not an endpoint. */
export const whiteBoxAttacks: ReadonlyMap<string, WhiteBoxAttack> = new Map([
  ["ascc", { options: hullSchema, createAttacker: createAsccAttacker }],
]);

interface WhiteBoxAttack {
  readonly options: z.ZodType;
  createAttacker(victim: GradientVictim, options: unknown): Attacker;
}

/** The names of the attacks built in. */
export const attackNames: readonly string[] = [
  ...definitions.map((definition) => definition.name),
  ...whiteBoxAttacks.keys(),
];

/** A search by its name, or by the path of a user's own file (its default export is a search or a definition). */
export async function loadAttack(spec: string, options: unknown = {}): Promise<Attack> {
  const known = definitions.find((definition) => definition.name === spec);
  if (known) return createAttack(known, options, spec);
  if (!/\.[cm]?[jt]s$/.test(spec)) {
    throw new UserError(
      `attack: expected one of ${attackNames.join(", ")}, or the path of a search of your own (.js), received "${spec}"${didYouMean(spec, attackNames)}`,
    );
  }
  const own = createAttack(await importDefinition(spec), options, spec);
  return { ...own, search: wrapSearchErrors(own.search, spec), source: await sha256File(spec) };
}

/** Refuses a name or options that no attack has, where there is no victim yet; `where` names the place of each part of the options. */
export async function checkAttack(
  spec: string,
  options: unknown,
  where: Exclude<SourceLocation, string>,
): Promise<void> {
  const schema = (whiteBoxAttacks.get(spec) ?? definitions.find((definition) => definition.name === spec))?.options;
  if (schema) return void validate(schema, options, (path) => `${where(path)}: attack ${spec}`);
  await loadAttack(spec, options).catch((error: unknown) => {
    throw new UserError(`${where([])}: ${getErrorMessage(error)}`, { cause: error });
  });
}

/** What goes wrong in a user's own search is told as such. */
function wrapSearchErrors(search: Search, path: string): Search {
  return function* (problem, rng) {
    try {
      return yield* search(problem, rng);
    } catch (error) {
      throw new UserError(`attack ${path}: its search failed on example ${problem.id}: ${getErrorMessage(error)}`, {
        cause: error,
      });
    }
  };
}

function createAttack(definition: AttackDefinition, raw: unknown, where: string): Attack {
  const options = validate(definition.options, raw, `attack ${where}`);
  const { name, hasBudget: limited, usesLanguageModel: languageModel = false } = definition;
  const exact = definition.exact?.(options);
  return {
    name,
    options,
    hasBudget: limited,
    usesLanguageModel: languageModel,
    search: definition.search(options),
    ...(exact && { exact }),
  };
}

async function importDefinition(path: string): Promise<AttackDefinition> {
  const module = (await import(pathToFileURL(resolve(path)).href).catch((error: unknown) => {
    throw new UserError(`attack ${path}: cannot load it: ${getErrorMessage(error)}`, { cause: error });
  })) as { default?: unknown };
  const exported = module.default;
  const name = basename(path, extname(path));
  if (typeof exported === "function")
    return { name, options: z.strictObject({}), hasBudget: false, search: () => exported as Search };
  if (typeof exported === "object" && exported !== null && "search" in exported && "options" in exported) {
    return { hasBudget: false, ...(exported as Omit<AttackDefinition, "hasBudget">), name };
  }
  throw new UserError(
    `attack ${path}: expected a default export that is a search (a generator function) or { options, search }, received ${typeof exported}`,
  );
}
