import type { z } from "zod";
import { validate } from "../base/validate.js";
import type { Attacker } from "./attacker.js";
import type { AttackParts, Recipe } from "./protocol.js";
import type { AttackResources, ResourceName } from "./resources.js";

/** What an attack may use: all resources that it needs, and those of the optional ones that exist. */
type UsedResources<Needs extends ResourceName> = Pick<AttackResources, Needs> & Partial<AttackResources>;

/** An attack: its name, its options, what it needs, and its parts. */
export interface AttackDefinition<Schema extends z.ZodType = z.ZodType, Needs extends ResourceName = ResourceName> {
  readonly name: string;
  /** One line for tables and --help. */
  readonly summary: string;
  readonly paper: string;
  /** Options with their defaults, which are defined only here. */
  readonly options: Schema;
  /** What it needs besides the victim's answers. It may depend on the options. */
  readonly resources: readonly Needs[] | ((options: z.output<Schema>) => readonly Needs[]);
  /** What it uses if it exists, and can also run without. */
  readonly optional?: readonly ResourceName[];
  /**
   * True if the search has its own budget. Many late successes then mean that a larger budget would
   * find more.
   */
  readonly hasBudget?: boolean;
  /** How Temper's version differs from the paper, in one sentence. */
  readonly differences?: string;
  /** Options to describe the attack with, if some have no default. */
  readonly exampleOptions?: z.input<Schema>;
  /** The goal, transformations, constraints and search. */
  build(options: z.output<Schema>, resources: UsedResources<Needs>): AttackParts | Recipe;
  /** An attack that does not search by asking for scores has its own loop over its parts. */
  createAttacker?(options: z.output<Schema>, resources: UsedResources<Needs>, parts: AttackParts): Attacker;
}

/** An attack in a request: its name and options. Built-in attacks need no definition. */
export interface AttackSpec {
  /** The name of an attack, or the path of a module that exports one. */
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly definition?: AttackDefinition;
}

/** An attack definition that can be called with options: `textfooler({ target: "positive" })`. */
export type Attack<Schema extends z.ZodType = z.ZodType, Name extends string = string> = AttackDefinition<Schema> & {
  readonly name: Name;
} & ((options?: z.input<Schema>) => AttackSpec);

/**
 * Defines an attack from a goal, transformations, constraints and a search.
 *
 * @example
 * export default defineAttack({
 *   name: "shout",
 *   summary: "the most important words in capital letters",
 *   paper: "an example",
 *   options: z.strictObject({ maxWords: z.int().min(1).default(3) }),
 *   resources: [],
 *   build: ({ maxWords }) => ({
 *     goal: untargeted,
 *     transformations: [
 *       {
 *         name: "capital letters",
 *         kind: "swap",
 *         apply: (text, positions) =>
 *           positions.map((position) =>
 *             text.apply({ kind: "replace", position, word: text.getWord(position).toUpperCase() }),
 *           ),
 *       },
 *     ],
 *     constraints: [maxWordsChanged({ count: maxWords })],
 *     search: rankWordsAndReplace({ by: "delete" }),
 *   }),
 * });
 */
export function defineAttack<Schema extends z.ZodType, Needs extends ResourceName, const Name extends string>(
  definition: AttackDefinition<Schema, Needs> & { readonly name: Name },
): Attack<Schema, Name> {
  const { name, ...rest } = definition;
  const attack = (options?: z.input<Schema>): AttackSpec => {
    const given = (options ?? {}) as Readonly<Record<string, unknown>>;
    validate(definition.options, given, `attack ${name}`);
    // The compiler has checked `build` against the options and resources of this definition.
    return { name, options: given, definition: attack as unknown as AttackDefinition };
  };
  // A function already has a read-only `name`.
  Object.defineProperty(attack, "name", { value: name });
  return Object.assign(attack, rest) as unknown as Attack<Schema, Name>;
}

/** What an attack needs besides the victim's answers. `options` are validated. */
export function getNeeds({ resources }: AttackDefinition, options: unknown): readonly ResourceName[] {
  return typeof resources === "function" ? resources(options) : resources;
}

/** Whether an attack uses gradients, so it is a white-box attack. */
export function usesGradients({ resources }: AttackDefinition): boolean {
  return typeof resources !== "function" && (resources.includes("gradient") || resources.includes("model"));
}
