import { z } from "zod";
import { wordNetContextSimilarity } from "../../attacks/constraints/context.js";
import { httpVictimSchema } from "../../attacks/endpoint.js";
import { attackSpecSchema } from "../../attacks/load-attack.js";
import type { QueryBudget } from "../../attacks/protocol.js";
import type { QueryCounters } from "../../attacks/query-counters.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { countSchema, orNull, seedSchema } from "../../base/validate.js";
import { dataOptions } from "../../settings/config.js";
import { runtimeOptions, searchPrecision } from "../../settings/runtime-config.js";
import { tokenizations } from "../../text/encoding.js";
import { recipeResourceOptions } from "../load/load-resources.js";
import { guardOptions } from "../predict/certified-model.js";
import { constraintOptions } from "./request-constraints.js";

const shape = {
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE, a Hugging Face model ID, or a URL"),
  attacks: z
    .array(attackSpecSchema)
    .min(1)
    .readonly()
    .prefault(["pwws"])
    .describe('attacks, such as "pwws" or "genetic:population=20"'),
  transferFrom: z.array(z.string()).default([]).describe("try the final texts of another model's journal, too"),
  seed: seedSchema.default(0).describe("random seed"),
  out: orNull(z.string(), "attacks/ in the run folder").describe("folder of the journals"),
  checks: orNull(z.boolean(), "for guard").describe(
    "attack some texts again, with a smaller budget, at random and by gradients, to check that the attack is adequate",
  ),
  resume: z.boolean().default(false).describe("continue the journals in the folder, or extend them to more examples"),
  ...dataOptions,
  split: z.enum(["train", "validation", "test"]).default("test").describe("dataset split to use"),
  numExamples: countSchema.default(1000).describe("number of examples"),
  sampling: z
    .enum(["random", "class-balanced"])
    .default("random")
    .describe("how the examples are sampled: random (as in RIFT), or class-balanced for equally many of each class"),
  attackedLabel: orNull(z.string().min(1), "of every label").describe(
    "attack only examples of this label, so that accuracy is the recall of the label",
  ),
  ...constraintOptions,
  minContextSimilarity: orNull(
    z.number().min(-1).max(1),
    `${wordNetContextSimilarity} for WordNet, -1 for other tables`,
  ).describe("a substitute must fit the words around it: minimum cosine similarity of windows; -1: any substitute"),
  queryBudget: orNull(countSchema).describe("maximum queries per example"),
  queriesPerWord: orNull(countSchema).describe("maximum queries per word of an example, instead of --query-budget"),
  substitutions: orNull(z.string(), "as in training").describe('word substitutions: "wordnet" or a JSON file'),
  inVocabSubstitutes: orNull(z.boolean(), "as in training").describe(
    "drop substitutes that are not in the model's vocabulary",
  ),
  caseSensitiveSubstitutes: orNull(z.boolean(), "as in training").describe(
    "words with a capital letter have no substitutes, except for genetic",
  ),
  lmConstraint: orNull(z.string()).describe("file of the substitutes that a language model allows, for genetic"),
  ...recipeResourceOptions,
  saveDataset: orNull(z.string()).describe("write the texts that fooled the model as a dataset (.jsonl)"),
  ...guardOptions,
  calibrated: z
    .boolean()
    .default(false)
    .describe("attack the guard that temper calibrate made: its threshold decides, with its windows"),
  ...runtimeOptions,
  precision: searchPrecision,
  tokenization: orNull(z.enum(tokenizations), "as in training").describe("subword or word"),
  maxLength: orNull(countSchema, "the model's").describe("maximum tokens per text"),
  concurrency: orNull(countSchema.max(100_000), "chosen for the device").describe("number of concurrent searches"),
  cache: z.boolean().default(true).describe("read and store scores on disk"),
  endpoint: httpVictimSchema.prefault({}),
};

/**
 * The keys that `temper attack --help` shows, by group; the others are in --help-all. The groups are
 * metadata of the request, because other requests have some of its keys.
 */
const helpGroups: Readonly<Record<string, readonly (keyof typeof shape)[]>> = {
  Attack: ["substitutions", "minContextSimilarity", "queryBudget"],
  Data: ["task", "data", "textColumn", "labelColumn", "numExamples", "attackedLabel", "seed"],
  Result: ["out", "resume", "checks"],
};

export const attackRequestSchema = z.strictObject(shape).meta({ helpGroups });

/**
 * An attack as data: the model, the attacks, the examples and the constraints.
 *
 *     const request: AttackRequest = { model: "runs/rose", attacks: ["pwws"], numExamples: 100 };
 */
export type AttackRequest = z.input<typeof attackRequestSchema>;

export function readBudget({ queryBudget, queriesPerWord }: ParsedAttackRequest): { readonly budget?: QueryBudget } {
  if (queryBudget !== null && queriesPerWord !== null)
    throw new UserError("attack: expected queryBudget or queriesPerWord, received both. Leave one of them out.");
  if (queriesPerWord !== null) return { budget: { perWord: queriesPerWord } };
  return queryBudget === null ? {} : { budget: queryBudget };
}

/** The keys of a request that give the budget in the header of a journal. */
export function toBudgetKeys(
  budget: unknown,
): Pick<z.input<typeof attackRequestSchema>, "queryBudget" | "queriesPerWord"> {
  if (typeof budget === "number") return { queryBudget: budget, queriesPerWord: null };
  const { perWord = null } = (budget ?? {}) as { readonly perWord?: number };
  return { queryBudget: null, queriesPerWord: perWord };
}

export type ParsedAttackRequest = z.output<typeof attackRequestSchema>;

/**
 * Lets other processes compute the parts of a request. `folder` is for its files, and `countOpen`
 * says how many parts are not finished.
 */
export type RunParts<Request> = (request: Request, folder: string, countOpen: () => Promise<number>) => Promise<void>;

export interface AttackCallbacks extends Callbacks {
  /** Called before the first example of an attack; `counters` are updated while it runs. */
  readonly onAttackStart?: (attack: string, done: number, total: number, counters: QueryCounters) => void;
  /** Several processes attack. This one merges their journals. */
  readonly runShards?: RunParts<ParsedAttackRequest & { readonly out: string }> | undefined;
}
