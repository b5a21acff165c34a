import type { z } from "zod";
import { validate } from "../base/validate.js";
import type { Recipe } from "./protocol.js";
import type { AttackResources, ResourceName } from "./resources.js";

/** The definition of an attack: its name, options, resources and parts. */
export interface AttackDefinition<Schema extends z.ZodType = z.ZodType, Needs extends ResourceName = ResourceName> {
  readonly name: string;
  /** One line for tables and --help. */
  readonly summary: string;
  readonly paper: string;
  /** Options with their defaults, which are defined only here. */
  readonly options: Schema;
  /** Resources that it needs besides the victim's answers. They may depend on the options. */
  readonly resources: readonly Needs[] | ((options: z.output<Schema>) => readonly Needs[]);
  /** Resources that it uses if they exist, and can also run without. */
  readonly optional?: readonly ResourceName[];
  /**
   * True if the search has its own budget. Many late successes then mean that a larger budget would
   * find more.
   */
  readonly hasBudget?: boolean;
  /** True if the attack is checked by controls unless the request says otherwise. */
  readonly isChecked?: boolean;
  /** The differences of Temper's version from the paper, in one sentence. */
  readonly differences?: string;
  /** The goal, transformations, constraints and search. */
  build(options: z.output<Schema>, resources: Pick<AttackResources, Needs> & Partial<AttackResources>): Recipe;
}

/** An attack as a value: `textfooler({ target: "positive" })`. */
export interface Attack {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly definition: AttackDefinition;
  /** SHA-256 of the file of a custom attack. Built-in attacks have none. */
  readonly source?: string;
}

/** An attack with its resources. */
export interface ReadyAttack extends Pick<Attack, "name" | "options"> {
  readonly hasBudget: boolean;
  /** True if it is checked by controls unless the request says otherwise. */
  readonly isChecked?: boolean;
  /** True if it uses gradients of the victim. */
  readonly isWhiteBox: boolean;
  readonly recipe: Recipe;
  /** SHA-256 of the resources and of the file of a custom attack, by name. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Seconds that other processes have spent, if they attack instead of this one. */
  readonly seconds?: number;
}

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
): AttackDefinition<Schema> & { readonly name: Name } & ((options?: z.input<Schema>) => Attack) {
  const { name, ...rest } = definition;
  const attack = (options?: z.input<Schema>): Attack =>
    // The compiler has checked `build` against the options and resources of this definition.
    createAttack(attack as unknown as AttackDefinition, options ?? {});
  // A function already has a read-only `name`.
  Object.defineProperty(attack, "name", { value: name });
  return Object.assign(attack, rest) as unknown as AttackDefinition<Schema> & { readonly name: Name } & typeof attack;
}

export function createAttack(definition: AttackDefinition, options: unknown): Attack {
  const { name } = definition;
  const checked = validate(definition.options, options, `attack ${name}`) as Attack["options"];
  return { name, options: checked, definition };
}

export function getNeeds({ resources }: AttackDefinition, options: unknown): readonly ResourceName[] {
  return typeof resources === "function" ? resources(options) : resources;
}

export function usesGradients({ resources }: AttackDefinition): boolean {
  return typeof resources !== "function" && (resources.includes("gradient") || resources.includes("model"));
}
