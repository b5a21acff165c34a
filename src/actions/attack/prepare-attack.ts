import { createHash } from "node:crypto";
import { join } from "node:path";
import { createAttackExample } from "../../attacks/attack-space.js";
import { keepContextualSubstitutes, resolveContextSimilarity } from "../../attacks/context-substitutes.js";
import {
  createRecipeAttack,
  findRecipe,
  listResources,
  loadAttack,
  whiteBoxAttacks,
} from "../../attacks/load-attack.js";
import { createPoolAttacker, type SearchPool } from "../../attacks/pool.js";
import { computeAndCount, type QueryCounters } from "../../attacks/query-counters.js";
import type { AnyExample, Attacker } from "../../attacks/run-attack.js";
import { createRecipeExample, type RecipeAttack } from "../../attacks/run-recipe.js";
import { createTransferAttack } from "../../attacks/transfer.js";
import type { PreparedInput } from "../../attacks/victim.js";
import { UserError } from "../../errors.js";
import { checkLabels } from "../../models/index.js";
import { resolveTablePath } from "../../runs/read-config.js";
import type { RunFolder } from "../../runs/run-folder.js";
import type { Example, Task } from "../../tasks/index.js";
import { type LmConstraint, loadLmConstraint } from "../../text/lm-constraint.js";
import type { Substitutions } from "../../text/substitutions.js";
import type { Callbacks } from "../callbacks.js";
import { type LoadedResources, loadRecipeResources } from "../load/load-resources.js";
import { isEndpoint, type LoadedVictim, loadVictim } from "../load/load-victim.js";
import { loadRequestedTask, loadSubstitutionsForModel } from "../train/prepare-run.js";
import { checkOutputRequest } from "./attack-outputs.js";
import type { ParsedAttackRequest } from "./attack-request.js";
import { openContextCache } from "./context-cache.js";
import { createProtection, createRequestConstraints } from "./request-constraints.js";
import { type AttackedSample, sampleAttacked } from "./sample-attacked.js";

/** Examples to attack instead of a sample of the task that the request names. */
export interface GivenExamples {
  readonly task: Task;
  readonly examples: readonly Example[];
}

/** Everything an attack request names, loaded. */
export interface PreparedAttack {
  readonly request: ParsedAttackRequest;
  readonly victim: LoadedVictim;
  readonly task: Task;
  readonly examples: readonly Example[];
  readonly coverage: AttackedSample["coverage"];
  /** The tables of attacks that only substitute words; null if there is no such attack. */
  readonly tables: SubstitutionTables | null;
  /** Null: substitutes of any sense are allowed. */
  readonly minContextSimilarity: number | null;
  readonly resources: LoadedResources;
  readonly lmConstraint: LmConstraint | null;
  readonly out: string;
}

interface SubstitutionTables {
  readonly substitutions: Substitutions;
  /** The table of attacks with a language-model constraint, which ignore the letter case. */
  readonly caseInsensitive: Substitutions;
}

/** An attack that is ready to run. */
export interface PlannedAttacker {
  readonly attacker: Attacker;
  /** The table of an attack that substitutes words; null for a recipe. */
  readonly substitutions: Substitutions | null;
  readonly lmConstraint: LmConstraint | null;
  /** Prepares some examples in a row. */
  createExamples(examples: readonly Example[]): Promise<readonly AnyExample[]>;
}

/** Loads the model of an attack, in the precision of the search. */
export function loadAttackVictim(request: ParsedAttackRequest, { onDownload }: Callbacks): Promise<LoadedVictim> {
  return loadVictim(request.model, { ...request, precision: request.precision ?? "auto", onDownload });
}

/** Loads everything that a request names. */
export async function prepareAttack(
  request: ParsedAttackRequest,
  victim: LoadedVictim,
  callbacks: Callbacks,
  given: GivenExamples | null,
): Promise<PreparedAttack> {
  const { model: reference } = request;
  await checkOutputRequest(request, request.attacks.length + request.transferFrom.length);
  const model = victim.local?.model ?? null;
  const run = victim.local?.run ?? null;
  const usesTables = request.transferFrom.length > 0 || request.attacks.some((spec) => !findRecipe(spec));
  const tables = usesTables ? await loadAttackSubstitutions(request, victim) : null;
  const task = given?.task ?? (await loadRequestedTask(request, model, run, callbacks));
  if (model) checkLabels(reference, model.labels, task.labels, task.name);
  if (victim.victim.numLabels !== task.labels.length)
    throw new UserError(
      `${victim.victim.name} returns ${victim.victim.numLabels} probabilities, but ${task.name} has ` +
        `${task.labels.length} labels (${task.labels.join(", ")}). Use a model of this task.`,
    );
  const lmConstraint = request.lmConstraint ? await loadLmConstraint(resolveTablePath(request.lmConstraint)) : null;
  const sample = given
    ? { examples: given.examples, coverage: null }
    : await sampleAttacked(task, request, lmConstraint);
  const out = request.out ?? getDefaultFolder(reference, run);
  const needs = request.attacks.flatMap(listResources);
  const minContextSimilarity = tables
    ? resolveContextSimilarity(request.minContextSimilarity, tables.substitutions.name)
    : null;
  if (request.minSimilarity !== null || minContextSimilarity !== null) needs.push("encoder");
  if (request.minSimilarity !== null || request.maxLikelihoodDrop !== null) needs.push("mlm");
  const resources = await loadRecipeResources(needs, request, victim, task.labels, callbacks);
  return { request, victim, task, ...sample, tables, minContextSimilarity, resources, lmConstraint, out };
}

async function loadAttackSubstitutions(
  request: ParsedAttackRequest,
  { local }: LoadedVictim,
): Promise<SubstitutionTables> {
  const trained = local?.run?.config;
  const source = request.substitutions ?? trained?.substitutions;
  if (!source)
    throw new UserError(
      `No substitutions found for ${request.model}. ` +
        'Pass --substitutions wordnet, or a JSON file such as {"good": ["great"]}.',
    );
  const inVocabSubstitutes = request.inVocabSubstitutes ?? trained?.inVocabSubstitutes ?? false;
  const caseSensitive = request.caseSensitiveSubstitutes ?? trained?.caseSensitiveSubstitutes ?? false;
  const load = (caseSensitiveSubstitutes: boolean): Promise<Substitutions> =>
    loadSubstitutionsForModel(
      resolveTablePath(source),
      { inVocabSubstitutes, caseSensitiveSubstitutes },
      local?.model ?? null,
    );
  const caseInsensitive = await load(false);
  return { substitutions: caseSensitive ? await load(true) : caseInsensitive, caseInsensitive };
}

/** attacks/ in the run of the model, or a folder named after the model. */
function getDefaultFolder(reference: string, run: RunFolder | null): string {
  if (run) return run.path("attacks");
  // A URL can contain secrets, which must not become the name of a folder.
  if (isEndpoint(reference))
    return join("attacks", `endpoint-${createHash("sha256").update(reference).digest("hex").slice(0, 12)}`);
  const name = reference
    .replace(/^npm:/, "")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "");
  return join("attacks", name);
}

/** Creates the attacks of a request. */
export async function planAttackers(
  prepared: PreparedAttack,
  pool: SearchPool<PreparedInput>,
  { onWarning }: Callbacks,
): Promise<PlannedAttacker[]> {
  const { request, victim, lmConstraint, examples, task, resources } = prepared;
  const planned: PlannedAttacker[] = [];
  const addAttacker = (each: PlannedAttacker): void => {
    const { attacker } = each;
    if (planned.some((other) => other.attacker.name === attacker.name))
      throw new UserError(
        `--attack ${attacker.name} is given twice, and both would write ${attacker.name}.jsonl. ` +
          "Use another --out for one.",
      );
    planned.push(each);
  };
  const add = (attacker: Attacker, usesLanguageModel = false): void => {
    const { substitutions, caseInsensitive } = prepared.tables!;
    const table = usesLanguageModel ? caseInsensitive : substitutions;
    const constraint = usesLanguageModel ? lmConstraint : null;
    const createExamples = createExampleBuilder(prepared, table, constraint, attacker.counters);
    addAttacker({ attacker, substitutions: table, lmConstraint: constraint, createExamples });
  };
  const addRecipe = (attack: RecipeAttack): void =>
    addAttacker({
      attacker: createPoolAttacker(pool, attack),
      ...{ substitutions: null, lmConstraint: null },
      createExamples: async (some) => some.map((example) => createRecipeExample(example, attack)),
    });
  for (const { name, options } of request.attacks) {
    const whiteBox = whiteBoxAttacks.get(name);
    if (whiteBox) {
      if (!victim.local)
        throw new UserError(
          `attack ${name} needs the model's gradients, which an endpoint does not give. Use pwws or genetic.`,
        );
      add(whiteBox.createAttacker(victim.local.gradient, options));
      continue;
    }
    if (findRecipe({ name, options })) {
      const constraints = createRequestConstraints(request, task.modifiableFields, resources.resources);
      addRecipe(createRecipeAttack(name, options, resources.resources, constraints));
      continue;
    }
    const loaded = await loadAttack(name, options);
    if (loaded.usesLanguageModel && !lmConstraint)
      onWarning?.(`${loaded.name} runs without its language-model constraint. Pass --lm-constraint FILE to use one.`);
    add(createPoolAttacker(pool, loaded), loaded.usesLanguageModel);
  }
  for (const journal of request.transferFrom)
    add(createPoolAttacker(pool, await createTransferAttack(journal, examples)));
  return planned;
}

/** Returns a function that lists the replacements of the words of an example. */
function createExampleBuilder(
  { victim, task, request, minContextSimilarity, resources }: PreparedAttack,
  substitutions: Substitutions,
  lmConstraint: LmConstraint | null,
  counters: QueryCounters,
): PlannedAttacker["createExamples"] {
  const { maxModificationRate, protectStopWords, matchPartOfSpeech } = request;
  const options = {
    modifiableFields: task.modifiableFields,
    substitutions,
    constraints: { maxModificationRate, protectStopWords, matchPartOfSpeech },
    protection: createProtection(request),
    encode: victim.encode,
    ...(lmConstraint && { languageModel: lmConstraint }),
  };
  return async (examples) => {
    const created = examples.map((example) => createAttackExample(example, options));
    if (minContextSimilarity === null) return created;
    const encoder = resources.resources.encoder!;
    const cache = request.cache ? openContextCache(encoder) : undefined;
    const counted = { ...encoder, compute: (texts: readonly string[]) => computeAndCount(encoder, texts, counters) };
    return keepContextualSubstitutes(created, counted, minContextSimilarity, cache).finally(() => cache?.close());
  };
}
