import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { ReadyAttack } from "../../attacks/define-attack.js";
import { redactOptions, redactUrl } from "../../attacks/endpoint.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import { SearchPool } from "../../attacks/pool.js";
import { claim } from "../../base/claim.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { createFolder } from "../../base/files.js";
import { validate } from "../../base/validate.js";
import {
  type AttackSuiteSummary,
  type JournalSummary,
  summarizeAttacks,
  summarizeJournal,
} from "../../evaluation/attack-summary.js";
import { runSanityChecks } from "../../evaluation/sanity-checks.js";
import { openScoreCache } from "../../models/inference/score-cache.js";
import {
  type AttackReport,
  findJournals,
  getJournalPath,
  getShardFolder,
  lockAttackFolder,
  readAllControls,
  writeAttackReport,
} from "../../runs/attack-folder.js";
import { hashExamples } from "../../runs/environment.js";
import { flattenData } from "../../settings/config.js";
import { isEndpoint } from "../load/load-victim.js";
import type { GivenExamples } from "../load/open-victim.js";
import { runControls } from "./attack-controls.js";
import { saveDataset } from "./attack-outputs.js";
import {
  type AttackCallbacks,
  type AttackRequest,
  attackRequestSchema,
  type ParsedAttackRequest,
  readBudget,
} from "./attack-request.js";
import { countResults, createShardReader, isShardDone, listShards, removeShards, type Shard } from "./attack-shards.js";
import { type LoadedRequest, openAttackedVictim, prepareAttack } from "./prepare-attack.js";
import { getJournalSettings, runJournal } from "./run-journal.js";

export type { AttackReport };

/** Endpoints with more ties than this are reported. */
const maxTieFraction = 0.05;

/**
 * Attacks a model over the same examples with one or more attacks. Each attack has its journal
 * OUT/NAME.jsonl, and OUT/report.json has the result.
 *
 *     const { clean, attacks } = await attack({ model: "runs/reviews", attacks: ["pwws"] });
 *     console.log(clean, attacks.pwws?.accuracyUnderAttack);
 *
 * An attack may be a value such as `textfooler({ target: "positive" })`, and the model a function
 * from texts to probabilities.
 */
export async function attack(
  request: Omit<AttackRequest, "model"> & { readonly model: string | PredictProbabilities },
  callbacks: AttackCallbacks = {},
  given: GivenExamples | null = null,
): Promise<AttackReport> {
  const { model } = request;
  const isFunction = typeof model === "function";
  if (isFunction && callbacks.runShards)
    throw new UserError("model: a function cannot be sent to other processes. Attack with one process.");
  const named = { ...request, model: isFunction ? model.name || "function" : model };
  const parsed = validate(attackRequestSchema, named, "attack");
  readBudget(parsed);
  await using victim = await openAttackedVictim(model, parsed, callbacks);
  return await runAttacks(await prepareAttack(parsed, victim, callbacks, given), callbacks);
}

export async function attackShards(request: AttackRequest, callbacks: Callbacks = {}): Promise<void> {
  const parsed = validate(attackRequestSchema, request, "attack");
  await using victim = await openAttackedVictim(parsed.model, parsed, callbacks);
  const prepared = await prepareAttack(parsed, victim, callbacks, null);
  using pool = createPool(prepared);
  const { signal } = callbacks;
  await attackOpenShards(prepared, pool, signal ? { signal } : {});
}

async function attackOpenShards(prepared: LoadedRequest, pool: SearchPool, callbacks: Callbacks): Promise<void> {
  for (const ready of prepared.attacks)
    for (const shard of await listOpenShards(prepared, ready))
      await attackShard(prepared, pool, ready, shard, callbacks);
}

async function listOpenShards({ out, examples }: LoadedRequest, ready: ReadyAttack): Promise<Shard[]> {
  const done = await countResults(getJournalPath(out, ready.name));
  return listShards(out, ready.name, examples.length).filter(({ end }) => end > done);
}

async function attackShard(
  prepared: LoadedRequest,
  pool: SearchPool,
  ready: ReadyAttack,
  shard: Shard,
  callbacks: Callbacks,
): Promise<void> {
  createFolder(dirname(shard.path));
  await claim({
    lock: `${shard.path}.lock`,
    readResult: async () => (await isShardDone(shard)) || null,
    async compute() {
      await runJournal(prepared, pool, ready, callbacks, {
        examples: prepared.examples.slice(shard.start, shard.end),
        path: shard.path,
        settings: { shard: [shard.start, shard.end] },
        isShard: true,
        stage: `shards of ${ready.name}`,
        first: shard.start,
        total: prepared.examples.length,
      });
      return true;
    },
  });
}

function createPool({ request, victim }: LoadedRequest): SearchPool {
  return new SearchPool(victim.victim, {
    concurrency: request.concurrency ?? victim.concurrency,
    ...(request.cache && { openCache: openScoreCache }),
  });
}

async function mergeShards(
  prepared: LoadedRequest,
  pool: SearchPool,
  runShards: NonNullable<AttackCallbacks["runShards"]>,
  callbacks: AttackCallbacks,
): Promise<void> {
  const { request, out, attacks } = prepared;
  for (const { name } of request.resume ? [] : attacks) {
    const path = getJournalPath(out, name);
    if (existsSync(path))
      throw new UserError(`${path} already exists. Pass --resume to continue it, or choose a different --out.`);
    await removeShards(out, name);
  }
  const shards = await Promise.all(attacks.map((ready) => listOpenShards(prepared, ready)));
  const countOpenShards = async (): Promise<number> =>
    (await Promise.all(shards.flat().map(isShardDone))).filter((isDone) => !isDone).length;
  if ((await countOpenShards()) > 0) await runShards({ ...request, out }, getShardFolder(out), countOpenShards);
  for (const [i, ready] of attacks.entries())
    await runJournal(prepared, pool, createShardReader(ready, shards[i]!), callbacks);
  await rm(getShardFolder(out), { recursive: true, force: true });
}

/** The request as it is recorded: data, without the secrets of an endpoint. */
function redactRequest(request: ParsedAttackRequest): ParsedAttackRequest {
  const attacks = request.attacks.map(({ name, options }) => ({ name, options }));
  // The examples of a program are in the journals.
  const { data, ...flat } = flattenData(request);
  const recorded = { ...flat, attacks, data: typeof data === "string" ? data : null };
  if (!isEndpoint(request.model)) return recorded;
  return { ...recorded, model: redactUrl(request.model), endpoint: redactOptions(request.endpoint) };
}

async function runAttacks(prepared: LoadedRequest, callbacks: AttackCallbacks): Promise<AttackReport> {
  const { request, victim, task, out, attacks } = prepared;
  using pool = createPool(prepared);
  const release = lockAttackFolder(out);
  try {
    const dropoutOn = await isNondeterministic(prepared);
    // Processes that a disappeared host had may have left shards.
    const hasShards = request.resume && existsSync(getShardFolder(out));
    const { onAttackStart: _, ...rest } = callbacks;
    const runHere = (): Promise<void> => attackOpenShards(prepared, pool, rest);
    const runShards = callbacks.runShards ?? (hasShards ? runHere : null);
    if (runShards) await mergeShards(prepared, pool, runShards, callbacks);
    else for (const each of attacks) await runJournal(prepared, pool, each, callbacks);
    const journals = new Map<string, JournalSummary>();
    for (const { name } of attacks) journals.set(name, await summarizeJournal(getJournalPath(out, name)));
    await addEarlierJournals(prepared, journals);
    // Answers that may change are asked for again, so that a guard with a memory is noticed.
    using fresh = victim.victim.isDeterministic ? null : createPool(prepared);
    for (const ready of attacks)
      await runControls(prepared, fresh ?? pool, ready, journals.get(ready.name)!, callbacks);
    const summary = summarizeAttacks(journals, await readAllControls(out, journals.keys()));
    if (!victim.victim.returnsLogits) warnAboutTies(summary, callbacks);
    const sanity = runSanityChecks(summary, { ...victim.facts, labels: task.labels, dropoutOn });
    const facts = { format: 3, task: task.name, split: request.split, coverage: prepared.coverage } as const;
    const report: AttackReport = {
      ...facts,
      labels: [...task.labels],
      ...summary,
      sanity,
      request: redactRequest({ ...request, out, precision: victim.precision }),
    };
    await writeAttackReport(out, report);
    await updateModelCard(prepared);
    if (request.saveDataset !== null) {
      const count = await saveDataset(request.saveDataset, out, [...journals.keys()], task);
      if (count === 0) warn(callbacks, `${request.saveDataset} is empty: no text fooled the model.`);
    }
    return report;
  } finally {
    release();
  }
}

/** Probabilities that are rounded or saturated give a search nothing to follow. */
function warnAboutTies({ attacks }: AttackSuiteSummary, callbacks: Callbacks): void {
  for (const [name, { ties = 0, queries }] of Object.entries(attacks))
    if (ties > maxTieFraction * queries.total)
      warn(
        callbacks,
        `${name}: ${ties} of ${queries.total} queries have exactly the margin of another one. The probabilities are ` +
          "rounded or saturated, so the search is weaker than it could be. Return probabilities with more digits.",
      );
}

async function updateModelCard({ victim: { local }, out }: LoadedRequest): Promise<void> {
  const run = local?.run;
  const results = run && out === run.path("attacks") ? await run.results() : null;
  if (!run || !results) return;
  const { writeModelCard } = await import("../model-card.js");
  await writeModelCard(run, results);
}

/**
 * Adds the journals that earlier calls finished on the same victim, examples and space: the worst
 * case includes them.
 */
async function addEarlierJournals(prepared: LoadedRequest, journals: Map<string, JournalSummary>): Promise<void> {
  const hash = { ...prepared.victim.victim.hashes, data: hashExamples(prepared.examples) };
  // Successes fool the float32 model, in whatever precision they were searched.
  const { searchPrecision: _, ...settings } = getJournalSettings(prepared);
  const wanted = Object.entries({ ...hash, ...settings });
  const { substitutions, caseInsensitiveSubstitutes } = prepared.resources;
  // Not every attack has a table of substitutions.
  const hashes = [undefined, substitutions?.hash, caseInsensitiveSubstitutes?.hash];
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

/**
 * Queries a few texts twice: a victim whose answers differ has dropout on, or is not what it seems.
 */
async function isNondeterministic({ victim: { victim }, examples }: LoadedRequest): Promise<boolean> {
  const items = victim.prepare(examples.slice(0, 4).map(({ texts }) => texts));
  const [first, second] = [await victim.predict(items), await victim.predict(items)];
  return first.some(({ probabilities }, i) =>
    Array.from(probabilities).some((value, k) => Math.abs(value - second[i]!.probabilities[k]!) > 1e-3),
  );
}
