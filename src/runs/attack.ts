import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { createAttackExample, createTextInput } from "../attacks/attack-space.js";
import { constraintsSchema } from "../attacks/constraints.js";
import {
  keepContextualSubstitutes,
  resolveContextSimilarity,
  wordNetContextSimilarity,
} from "../attacks/context-substitutes.js";
import { httpVictimSchema, redactOptions, redactUrl } from "../attacks/endpoint.js";
import {
  attackSpecSchema,
  createRecipeAttack,
  findRecipe,
  listResources,
  loadAttack,
  whiteBoxAttacks,
} from "../attacks/load-attack.js";
import { createPoolAttacker, SearchPool, splitIntoChunks } from "../attacks/pool.js";
import { type AnyExample, type Attacker, type QueryCounters, runAttack } from "../attacks/run-attack.js";
import { createRecipeExample, type RecipeAttack } from "../attacks/run-recipe.js";
import { openScoreCache, ScoreCache } from "../attacks/score-cache.js";
import { createTransferAttack } from "../attacks/transfer.js";
import type { PreparedInput, Victim } from "../attacks/victim.js";
import { UserError } from "../errors.js";
import { type JournalSummary, summarizeAttacks, summarizeJournal } from "../evaluation/attack-summary.js";
import { runSanityChecks } from "../evaluation/sanity-checks.js";
import { createFolder } from "../files.js";
import { tryLock } from "../lock.js";
import { checkLabels } from "../models/index.js";
import type { Example, Task } from "../tasks/index.js";
import { type LmConstraint, loadLmConstraint } from "../text/lm-constraint.js";
import type { Substitutions } from "../text/substitutions.js";
import { Interrupted } from "../train/index.js";
import { countSchema, orNull, seedSchema, validate } from "../validate.js";
import {
  type AttackReport,
  findJournals,
  getJournalPath,
  getShardFolder,
  lockAttackFolder,
  readSimilarities,
  writeAttackReport,
} from "./attack-folder.js";
import { attackOutputOptions, checkOutputRequest, measureValidity, saveDataset, writeLogs } from "./attack-outputs.js";
import { countResults, createShardReader, isShardDone, listShards, removeShards, type Shard } from "./attack-shards.js";
import type { Callbacks } from "./callbacks.js";
import { dataOptions } from "./config.js";
import { openContextCache } from "./context-cache.js";
import { hashExamples } from "./environment.js";
import { type LoadedResources, loadRecipeResources, recipeResourceOptions } from "./load-recipe-resources.js";
import { isEndpoint, type LoadedVictim, loadVictim } from "./load-victim.js";
import { loadRequestedTask, loadSubstitutionsForModel } from "./prepare-run.js";
import { resolveTablePath } from "./read-config.js";
import { createProtection, createRequestConstraints, protectionOptions } from "./request-constraints.js";
import type { Run } from "./run.js";
import { runtimeOptions, searchPrecision } from "./runtime-config.js";
import { type AttackedSample, sampleAttacked } from "./sample-attacked.js";

/** What `attack` accepts. */
export const attackRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE, a Hugging Face model ID, or a URL"),
  attacks: z
    .array(attackSpecSchema)
    .min(1)
    .prefault(["pwws"])
    .describe('attacks, such as "pwws" or "genetic:population=20"'),
  transferFrom: z.array(z.string()).default([]).describe("try the final texts of another model's journal, too"),
  substitutions: orNull(z.string()).describe('word substitutions: "wordnet" or a JSON file; null: as in training'),
  inVocabSubstitutes: orNull(z.boolean()).describe(
    "drop substitutes that are not in the model's vocabulary; null: as in training",
  ),
  caseSensitiveSubstitutes: orNull(z.boolean()).describe(
    "words with a capital letter have no substitutes, except for genetic; null: as in training",
  ),
  lmConstraint: orNull(z.string()).describe("file of the substitutes that a language model allows, for genetic"),
  ...dataOptions,
  split: z.enum(["train", "validation", "test"]).default("test").describe("dataset split to use"),
  numExamples: countSchema.default(1000).describe("number of examples to attack"),
  sampling: z
    .enum(["random", "class-balanced"])
    .default("random")
    .describe("how the examples are sampled: random (as in RIFT), or equally many of each class"),
  seed: seedSchema.default(0).describe("random seed"),
  queryBudget: orNull(countSchema).describe("maximum queries per example"),
  ...constraintsSchema.shape,
  minContextSimilarity: orNull(z.number().min(-1).max(1)).describe(
    "a substitute must fit the words around it: minimum cosine similarity of windows; -1: any substitute; null: " +
      `${wordNetContextSimilarity} for WordNet, -1 for other tables`,
  ),
  maxLikelihoodDrop: orNull(z.number().min(0)).describe(
    "for recipes: maximum drop of a word's log-likelihood, by the masked language model",
  ),
  ...protectionOptions,
  ...recipeResourceOptions,
  concurrency: orNull(countSchema.max(100_000)).describe("number of concurrent searches; null: chosen for the device"),
  cache: z.boolean().default(true).describe("read and store scores on disk"),
  out: orNull(z.string()).describe("folder of the journals; null: attacks/ in the run folder"),
  resume: z.boolean().default(false).describe("continue the journals in the folder, or extend them to more examples"),
  ...attackOutputOptions,
  tokenization: orNull(z.enum(["subword", "word"])).describe("subword or word; null: as in training"),
  maxLength: orNull(countSchema).describe("maximum tokens per text; null: the model's"),
  endpoint: httpVictimSchema.prefault({}),
  ...runtimeOptions,
  precision: searchPrecision,
});

/**
 * An attack as data: the model, the attacks, the examples and the constraints.
 *
 *     const request: AttackRequest = { model: "runs/rose", attacks: ["pwws"], numExamples: 100 };
 */
export type AttackRequest = z.input<typeof attackRequestSchema>;
type ParsedRequest = z.output<typeof attackRequestSchema>;

/**
 * Lets other processes attack the shards of a request. `folder` is for its files, and
 * `countOpenShards` says how many shards are not finished.
 */
export type ShardRunner = (
  request: ParsedRequest & { readonly out: string },
  folder: string,
  countOpenShards: () => Promise<number>,
) => Promise<void>;

/** What happens during an attack. */
export interface AttackCallbacks extends Callbacks {
  /** Called before the first example of an attack; `counters` are updated while it runs. */
  readonly onAttackStart?: (attack: string, done: number, total: number, counters: QueryCounters) => void;
  /** Several processes attack. This one merges their journals. */
  readonly runShards?: ShardRunner;
}

/** The options of `run.attack`: the request without the model and the attacks, and callbacks. */
export type AttackOptions = Omit<AttackRequest, "model" | "attacks"> & Callbacks;

export type { AttackReport };

/** Examples to attack instead of a sample of the task that the request names. */
export interface GivenExamples {
  readonly task: Task;
  readonly examples: readonly Example[];
}

/** Everything an attack request names, loaded. */
interface PreparedAttack {
  readonly request: ParsedRequest;
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

interface PlannedAttacker {
  readonly attacker: Attacker;
  /** The table of an attack that substitutes words; null for a recipe. */
  readonly substitutions: Substitutions | null;
  readonly lmConstraint: LmConstraint | null;
  /** Prepares some examples in a row. */
  createExamples(examples: readonly Example[]): Promise<readonly AnyExample[]>;
}

/**
 * Attacks a model over the same examples with one or more attacks. Each attack has its journal
 * OUT/NAME.jsonl, and OUT/report.json has the result.
 *
 *     const { clean, attacks } = await attack({ model: "runs/reviews", attacks: ["pwws"] });
 *     console.log(clean, attacks.pwws?.accuracyUnderAttack);
 */
export async function attack(
  request: AttackRequest,
  callbacks: AttackCallbacks = {},
  given: GivenExamples | null = null,
): Promise<AttackReport> {
  const parsed = validate(attackRequestSchema, request, "attack");
  const precision = parsed.precision ?? "auto";
  const victim = await loadVictim(parsed.model, { ...parsed, precision, onDownload: callbacks.onDownload });
  try {
    const prepared = await prepareAttack(parsed, victim, callbacks, given);
    return await runAttacks(prepared, callbacks).finally(prepared.resources.close);
  } finally {
    victim.close();
  }
}

/**
 * The part of a worker in an attack with several processes: takes one shard after the other that
 * nobody else works on, until none is left.
 */
export async function attackShards(request: AttackRequest, callbacks: Callbacks = {}): Promise<void> {
  const parsed = validate(attackRequestSchema, request, "attack");
  const victim = await loadVictim(parsed.model, { ...parsed, onDownload: callbacks.onDownload });
  try {
    const prepared = await prepareAttack(parsed, victim, callbacks, null);
    const caches = openCaches(prepared);
    try {
      for (const plan of await planAttackers(prepared, createPool(prepared, caches), callbacks))
        for (const shard of await listOpenShards(prepared, plan)) await attackShard(prepared, plan, shard, callbacks);
    } finally {
      caches.close();
      await prepared.resources.close();
    }
  } finally {
    victim.close();
  }
}

/** The shards whose results are not yet in the journal of the attack. */
async function listOpenShards({ out, examples }: PreparedAttack, { attacker }: PlannedAttacker): Promise<Shard[]> {
  const done = await countResults(getJournalPath(out, attacker.name));
  return listShards(out, attacker.name, examples.length).filter(({ end }) => end > done);
}

async function attackShard(
  prepared: PreparedAttack,
  plan: PlannedAttacker,
  shard: Shard,
  { signal }: Callbacks,
): Promise<void> {
  if (await isShardDone(shard)) return;
  createFolder(dirname(shard.path));
  const release = tryLock(`${shard.path}.lock`);
  if (typeof release !== "function") return;
  try {
    await runPlannedAttack(prepared, plan, signal ? { signal } : {}, shard);
  } finally {
    release();
  }
}

/** The scores of the victim, and those of its exact version, if it has one. */
interface Caches {
  readonly cache: ScoreCache;
  readonly exactCache: ScoreCache | null;
  close(): void;
}

function openCaches({ request, victim: { victim } }: PreparedAttack): Caches {
  const open = (scored: Victim): ScoreCache =>
    request.cache ? openScoreCache(scored) : new ScoreCache(scored.numLabels);
  const cache = open(victim);
  const exactCache = victim.exact ? open(victim.exact) : null;
  return {
    cache,
    exactCache,
    close() {
      exactCache?.close();
      cache.close();
    },
  };
}

function createPool({ request, victim }: PreparedAttack, { cache, exactCache }: Caches): SearchPool<PreparedInput> {
  const concurrency = request.concurrency ?? victim.concurrency;
  return new SearchPool(victim.victim, {
    concurrency,
    cache,
    ...(exactCache && { exactCache }),
    encode: victim.encode,
  });
}

/** Lets other processes attack, and adds the results of their shards to the journals. */
async function mergeShards(
  prepared: PreparedAttack,
  planned: readonly PlannedAttacker[],
  runShards: ShardRunner,
  callbacks: AttackCallbacks,
): Promise<void> {
  const { request, out } = prepared;
  for (const { attacker } of planned) {
    const path = getJournalPath(out, attacker.name);
    if (request.resume) continue;
    if (existsSync(path))
      throw new UserError(`${path} already exists. Pass --resume to continue it, or choose a different --out.`);
    await removeShards(out, attacker.name);
  }
  const shards = await Promise.all(planned.map((plan) => listOpenShards(prepared, plan)));
  const countOpenShards = async (): Promise<number> =>
    (await Promise.all(shards.flat().map(isShardDone))).filter((isDone) => !isDone).length;
  if ((await countOpenShards()) > 0) await runShards({ ...request, out }, getShardFolder(out), countOpenShards);
  for (const [i, plan] of planned.entries()) {
    const attacker = createShardReader(plan.attacker, shards[i]!);
    await runPlannedAttack(prepared, { ...plan, attacker }, callbacks);
  }
  await rm(getShardFolder(out), { recursive: true, force: true });
}

async function prepareAttack(
  request: ParsedRequest,
  victim: LoadedVictim,
  callbacks: Callbacks,
  given: GivenExamples | null,
): Promise<PreparedAttack> {
  const { model: reference } = request;
  checkOutputRequest(request, request.attacks.length + request.transferFrom.length);
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

async function loadAttackSubstitutions(request: ParsedRequest, { local }: LoadedVictim): Promise<SubstitutionTables> {
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

/** Examples that are prepared together, so that their contexts are encoded in full batches. */
const preparedExamples = 64;

/** attacks/ in the run of the model, or a folder named after the model. */
function getDefaultFolder(reference: string, run: Run | null): string {
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

/** The request as it is recorded: without the secrets of an endpoint. */
function redactRequest(request: ParsedRequest): ParsedRequest {
  if (!isEndpoint(request.model)) return request;
  return { ...request, model: redactUrl(request.model), endpoint: redactOptions(request.endpoint) };
}

async function runAttacks(prepared: PreparedAttack, callbacks: AttackCallbacks): Promise<AttackReport> {
  const { request, victim, task, out } = prepared;
  const caches = openCaches(prepared);
  const planned = await planAttackers(prepared, createPool(prepared, caches), callbacks);
  const release = lockAttackFolder(out);
  try {
    const dropoutOn = await isNondeterministic(prepared);
    const { runShards } = callbacks;
    if (runShards) await mergeShards(prepared, planned, runShards, callbacks);
    else for (const each of planned) await runPlannedAttack(prepared, each, callbacks);
    const journals = new Map<string, JournalSummary>();
    for (const { attacker } of planned)
      journals.set(attacker.name, await summarizeJournal(getJournalPath(out, attacker.name)));
    await addEarlierJournals(prepared, journals);
    const summary = summarizeAttacks(journals);
    const names = [...journals.keys()];
    if (request.minSimilarity !== null)
      for (const name of names) {
        const { encoder, mlm } = prepared.resources.resources;
        const models = { encoder: encoder!, mlm: mlm ?? null };
        summary.attacks[name]!.validity = await measureValidity(out, name, models, request.minSimilarity);
      }
    const sanity = runSanityChecks(summary, {
      ...victim.facts,
      labels: task.labels,
      dropoutOn,
      whiteBox: names.filter((name) => whiteBoxAttacks.has(name)),
      transfer: names.filter((name) => name.startsWith("transfer-")),
    });
    const facts = { format: 2, task: task.name, split: request.split, coverage: prepared.coverage } as const;
    const report: AttackReport = {
      ...facts,
      ...summary,
      sanity,
      request: redactRequest({ ...request, out, precision: victim.precision }),
    };
    await writeAttackReport(out, report);
    await updateModelCard(prepared);
    await writeLogs(request, out, names);
    if (request.saveDataset !== null) {
      const similarities = new Map<string, ReadonlyMap<string, number>>();
      for (const name of names) similarities.set(name, await readSimilarities(out, name));
      const { device, threads } = request;
      const precision = victim.precision === "int8" ? null : victim.precision;
      const runtime = { device, threads, precision };
      const count = await saveDataset(request, out, names, task, { similarities, runtime });
      if (count === 0) callbacks.onWarning?.(`${request.saveDataset} is empty: no text passed all filters.`);
    }
    return report;
  } finally {
    caches.close();
    release();
  }
}

/** The card of a run's model has the results of its attacks. */
async function updateModelCard({ victim: { local }, out }: PreparedAttack): Promise<void> {
  const run = local?.run;
  const results = run && out === run.path("attacks") ? await run.results() : null;
  if (!run || !results) return;
  const { writeModelCard } = await import("./model-card.js");
  await writeModelCard(run, results);
}

/**
 * Adds the journals that earlier calls finished on the same victim, examples and space: the worst
 * case includes them.
 */
async function addEarlierJournals(prepared: PreparedAttack, journals: Map<string, JournalSummary>): Promise<void> {
  const hash = { ...prepared.victim.victim.hashes, data: hashExamples(prepared.examples) };
  // Successes fool the float32 model, in whatever precision they were searched.
  const { searchPrecision: _, ...settings } = getJournalSettings(prepared);
  const wanted = Object.entries({ ...hash, ...settings });
  const { tables } = prepared;
  // Recipes have no table of substitutions.
  const hashes = [undefined, tables?.substitutions.hash, tables?.caseInsensitive.hash];
  for (const name of await findJournals(prepared.out)) {
    if (journals.has(name)) continue;
    const journal = await summarizeJournal(getJournalPath(prepared.out, name)).catch((error: unknown) => {
      if (error instanceof UserError) return null;
      throw error;
    });
    const recorded: Record<string, unknown> = { ...journal?.header.hashes, ...journal?.header.settings };
    const isSame = wanted.every(([key, value]) => JSON.stringify(recorded[key]) === JSON.stringify(value));
    const hasSameTable = hashes.includes(journal?.header.hashes.substitutions);
    if (journal?.finished && isSame && hasSameTable) journals.set(name, journal);
  }
}

function getJournalSettings({
  task,
  request,
  victim,
  minContextSimilarity,
  resources,
}: PreparedAttack): Record<string, unknown> {
  const { split, maxModificationRate, protectStopWords, matchPartOfSpeech, protectedText, protect } = request;
  const constraints = {
    ...{ maxModificationRate, protectStopWords, matchPartOfSpeech },
    ...(protectedText.length > 0 && { protectedText }),
    ...(protect.length > 0 && { protect }),
    ...(request.maxLikelihoodDrop !== null && { maxLikelihoodDrop: request.maxLikelihoodDrop }),
    ...(minContextSimilarity !== null && { minContextSimilarity, contextEncoder: resources.resources.encoder!.hash }),
  };
  // In the order in which they are drawn, the examples of a smaller sample come first.
  return { task: task.name, split, order: "drawn", ...victim.settings, ...constraints };
}

async function planAttackers(
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
    const createExamples = createExampleBuilder(prepared, table, constraint);
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

async function runPlannedAttack(
  prepared: PreparedAttack,
  plan: PlannedAttacker,
  callbacks: AttackCallbacks,
  shard: Shard | null = null,
): Promise<void> {
  const { request, out } = prepared;
  const examples = shard ? prepared.examples.slice(shard.start, shard.end) : prepared.examples;
  const { attacker, substitutions, lmConstraint, createExamples } = plan;
  const total = examples.length;
  await runAttack({
    attacker,
    // Examples are prepared when they are needed, so that memory does not grow with their number.
    attackExamples: (async function* () {
      for await (const some of splitIntoChunks(examples, preparedExamples)) yield* await createExamples(some);
    })(),
    numExamples: total,
    seed: request.seed,
    ...(request.queryBudget !== null && { budget: request.queryBudget }),
    hashes: {
      ...(substitutions && { substitutions: substitutions.hash }),
      ...(lmConstraint && { languageModel: lmConstraint.hash }),
    },
    hashFirst: (count) => hashExamples(examples.slice(0, count)),
    settings: { ...getJournalSettings(prepared), ...(shard && { shard: [shard.start, shard.end] }) },
    journalPath: shard?.path ?? getJournalPath(out, attacker.name),
    // A worker continues what another one has left.
    resume: request.resume || shard !== null,
    isShard: shard !== null,
    onStart: (done) => callbacks.onAttackStart?.(attacker.name, done, total, attacker.counters),
    onResult(_, done) {
      callbacks.onProgress?.({ stage: `attack ${attacker.name}`, done, total });
      if (callbacks.signal?.aborted)
        throw new Interrupted(`Stopped after ${done} of ${total} examples. Every finished example is in the journal.`);
    },
  });
}

/** Returns a function that lists the replacements of the words of an example. */
function createExampleBuilder(
  { victim, task, request, minContextSimilarity, resources }: PreparedAttack,
  substitutions: Substitutions,
  lmConstraint: LmConstraint | null,
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
    const { encoder } = resources.resources;
    if (minContextSimilarity === null) return created;
    const cache = request.cache ? openContextCache(encoder!) : undefined;
    return keepContextualSubstitutes(created, encoder!, minContextSimilarity, cache).finally(() => cache?.close());
  };
}

/**
 * Queries a few texts twice: a victim whose answers differ has dropout on, or is not what it seems.
 */
async function isNondeterministic({ victim: { victim, encode }, examples }: PreparedAttack): Promise<boolean> {
  const inputs = examples
    .slice(0, 4)
    .map(({ texts }) => victim.prepare(createTextInput(() => [...texts], texts.length, encode)))
    .sort((a, b) => a.length - b.length);
  const [first, second] = [await victim.probabilities(inputs), await victim.probabilities(inputs)];
  return first.some((row, i) => row.some((value, k) => Math.abs(value - second[i]![k]!) > 1e-3));
}
