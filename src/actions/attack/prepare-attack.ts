import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Attacker } from "../../attacks/attacker.js";
import type { PredictProbabilities } from "../../attacks/function-victim.js";
import { createAttacker, type LoadedAttack, listResources, loadAttack } from "../../attacks/load-attack.js";
import { createPoolAttacker, type SearchPool } from "../../attacks/pool.js";
import type { Constraint } from "../../attacks/protocol.js";
import type { ResourceName } from "../../attacks/resources.js";
import { createTransferAttack } from "../../attacks/transfer.js";
import type { PreparedInput } from "../../attacks/victim.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, warn } from "../../base/events.js";
import { checkLabels } from "../../models/index.js";
import type { RunFolder } from "../../runs/run-folder.js";
import { toDataRequest } from "../../settings/config.js";
import { resolveTablePath } from "../../settings/read-config.js";
import type { Example, Task } from "../../tasks/index.js";
import { loadLmConstraint } from "../../text/lm-constraint.js";
import { looksEnglish } from "../../text/looks-english.js";
import { type LoadedResources, loadAttackResources } from "../load/load-resources.js";
import { isEndpoint, type LoadedVictim, loadVictim } from "../load/load-victim.js";
import { loadRequestedTask } from "../train/prepare-run.js";
import { checkOutputRequest } from "./attack-outputs.js";
import type { ParsedAttackRequest } from "./attack-request.js";
import { createProtocolConstraints, limitModification } from "./published-protocols.js";
import { createRequestConstraints } from "./request-constraints.js";
import { type AttackedSample, sampleAttacked } from "./sample-attacked.js";

/** Loads the model of an attack, in the precision of the search. */
export function loadAttackVictim(
  model: string | PredictProbabilities,
  { runtime, guard }: ParsedAttackRequest,
  { onEvent }: Callbacks,
): Promise<LoadedVictim> {
  return loadVictim(model, { ...runtime, guard, precision: runtime.precision ?? "auto", onEvent });
}

/** The attacks of a request with everything they need, for examples of any source. */
export interface PreparedAttacks {
  readonly attacks: readonly LoadedAttack[];
  readonly resources: LoadedResources;
  /** The constraints of the request, which apply to every attack. */
  readonly constraints: readonly Constraint[];
}

/** The attacks of a request. To measure a density, the random attack does not stop at a success. */
function listSpecs({ attacks, outputs, constraints }: ParsedAttackRequest): ParsedAttackRequest["attacks"] {
  if (!outputs.density) return attacks;
  if (!attacks.some(({ name }) => name === "random"))
    throw new UserError("--density counts the texts of the attack random. Add --attack random:samples=3000.");
  if (constraints.queryBudget !== null)
    throw new UserError("--density scores every random text. Leave out --query-budget; samples is its budget.");
  return attacks.map((spec) =>
    spec.name === "random" ? { ...spec, options: { ...spec.options, density: true } } : spec,
  );
}

/** Loads the attacks of a request and what they need. */
export async function prepareAttacks(
  request: ParsedAttackRequest,
  victim: LoadedVictim,
  { labels, modifiableFields }: Pick<Task, "labels" | "modifiableFields">,
  callbacks: Callbacks,
): Promise<PreparedAttacks> {
  const attacks: LoadedAttack[] = [];
  for (const spec of listSpecs(request)) attacks.push(await loadAttack(spec));
  const needs: ResourceName[] = attacks.flatMap(listResources);
  if (request.outputs.minSimilarity !== null) needs.push("encoder", "mlm");
  if (request.protocol !== null) {
    needs.push("encoder");
    if (request.resources.vectors === null)
      warn(
        callbacks,
        `The protocol ${request.protocol} has counter-fitted neighbors. Pass --vectors FILE to use them.`,
      );
  }
  if (request.constraints.maxLikelihoodDrop !== null) needs.push("mlm");
  const { minContextSimilarity } = request.constraints;
  const wanted = { ...request.resources, minContextSimilarity, cache: request.runtime.cache };
  const resources = await loadAttackResources(needs, wanted, victim, labels, callbacks);
  try {
    const constraints = [
      ...createRequestConstraints(request.constraints, modifiableFields, resources.resources),
      ...createProtocolConstraints(request.protocol, resources.resources),
    ];
    for (const { name, definition } of attacks)
      if (definition.optional?.includes("lmConstraint") && request.resources.lmConstraint === null)
        warn(callbacks, `${name} runs without its language-model constraint. Pass --lm-constraint FILE to use one.`);
    return { attacks, resources, constraints };
  } catch (error) {
    resources.close();
    throw error;
  }
}

/** Creates the attackers of prepared attacks. */
export function createAttackers(
  { attacks, resources, constraints }: PreparedAttacks,
  pool: SearchPool<PreparedInput>,
): Attacker[] {
  return attacks.map((attack) => createAttacker(attack, resources.resources, constraints, pool));
}

/** Examples to attack instead of a sample of the task that the request names. */
export interface GivenExamples {
  readonly task: Task;
  readonly examples: readonly Example[];
}

/** Everything an attack request names, loaded. */
export interface PreparedAttack extends PreparedAttacks {
  readonly request: ParsedAttackRequest;
  readonly victim: LoadedVictim;
  readonly task: Task;
  readonly examples: readonly Example[];
  readonly coverage: AttackedSample["coverage"];
  readonly out: string;
}

/** Loads everything that a request names. */
export async function prepareAttack(
  parsed: ParsedAttackRequest,
  victim: LoadedVictim,
  callbacks: Callbacks,
  given: GivenExamples | null,
): Promise<PreparedAttack> {
  await checkOutputRequest(parsed.outputs, parsed.attacks.length + parsed.transferFrom.length);
  const run = victim.local?.run ?? null;
  const task = await loadCheckedTask(parsed, victim, given?.task ?? null, callbacks);
  const request = limitModification(parsed, task.name);
  const { lmConstraint: table } = request.resources;
  const lmConstraint = table ? await loadLmConstraint(resolveTablePath(table)) : null;
  const sample = given
    ? { examples: given.examples, coverage: null }
    : await sampleAttacked(task, { ...request.sample, seed: request.seed }, lmConstraint, request.protocol);
  const out = request.out ?? getModelFolder("attacks", request.model, run);
  const attacks = await prepareAttacks(request, victim, task, callbacks);
  warnOfEnglishResources(attacks, sample.examples, callbacks);
  return { ...attacks, request, victim, task, ...sample, out };
}

/** Warns if English resources meet texts that do not look English: the model would seem robust. */
function warnOfEnglishResources(
  { resources: { resources } }: PreparedAttacks,
  examples: readonly Example[],
  callbacks: Callbacks,
): void {
  const isWordNet =
    resources.wordnet ||
    [resources.substitutions, resources.neighbors].some((table) => /^wordnet\b/.test(table?.name ?? ""));
  if (isWordNet && !looksEnglish(examples.flatMap(({ texts }) => texts)))
    warn(
      callbacks,
      "WordNet is English, and the texts do not look English. Few of their words have substitutes, so the model seems more " +
        "robust than it is. Pass --substitutions FILE with a table of their language.",
    );
}

/** Loads the task of a request, unless it is given, and checks that the victim has its labels. */
export async function loadCheckedTask(
  { model: reference, data }: Pick<ParsedAttackRequest, "model" | "data">,
  victim: LoadedVictim,
  given: Task | null,
  callbacks: Callbacks,
): Promise<Task> {
  const model = victim.local?.model ?? null;
  const task = given ?? (await loadRequestedTask(toDataRequest(data), model, victim.local?.run ?? null, callbacks));
  if (model) checkLabels(reference, model.labels, task.labels, task.name);
  if (victim.victim.numLabels !== task.labels.length)
    throw new UserError(
      `${victim.victim.name} returns ${victim.victim.numLabels} probabilities, but ${task.name} has ` +
        `${task.labels.length} labels (${task.labels.join(", ")}). Use a model of this task.`,
    );
  return task;
}

/** The folder of a kind of result in the run of the model, or one named after the model. */
export function getModelFolder(kind: "attacks" | "exact", reference: string, run: RunFolder | null): string {
  if (run) return run.path(kind);
  // A URL can contain secrets, which must not become the name of a folder.
  if (isEndpoint(reference))
    return join(kind, `endpoint-${createHash("sha256").update(reference).digest("hex").slice(0, 12)}`);
  const name = reference
    .replace(/^npm:/, "")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "");
  return join(kind, name);
}

/** Creates what attacks the examples of a request: its attacks, and texts of other models. */
export async function planAttackers(prepared: PreparedAttack, pool: SearchPool<PreparedInput>): Promise<Attacker[]> {
  const { request, examples, constraints } = prepared;
  const attackers = createAttackers(prepared, pool);
  for (const journal of request.transferFrom)
    attackers.push(createPoolAttacker(pool, await createTransferAttack(journal, examples, constraints)));
  const names = attackers.map(({ name }) => name);
  const repeated = names.find((name, i) => names.indexOf(name) < i);
  if (repeated !== undefined)
    throw new UserError(
      `--attack ${repeated} is given twice, and both would write ${repeated}.jsonl. Use another --out for one.`,
    );
  return attackers;
}
