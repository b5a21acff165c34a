import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type AttackExample, createAttackExample, createInputBuilder } from "../attacks/attack-space.js";
import type { Attacker } from "../attacks/attacker.js";
import type { Constraints } from "../attacks/constraints.js";
import { loadAttack, whiteBoxAttacks } from "../attacks/index.js";
import { createPoolAttacker, SearchPool } from "../attacks/pool.js";
import { type AttackTiming, readTiming, runAttack } from "../attacks/run-attack.js";
import { openScoreCache, ScoreCache } from "../attacks/score-cache.js";
import { createUnchangedCandidate } from "../attacks/search.js";
import { createTransferAttack } from "../attacks/transfer.js";
import type { PreparedInput } from "../attacks/victim.js";
import { UserError } from "../errors.js";
import { type AttackSuiteSummary, summarize } from "../evaluation/attack-summary.js";
import { runSanityChecks, type SanityWarning } from "../evaluation/sanity-checks.js";
import { createFileError } from "../files.js";
import { acquireLock } from "../lock.js";
import type { Example, Task } from "../tasks/task.js";
import type { LmConstraint } from "../text/language-model-swaps.js";
import type { Substitutions } from "../text/substitutions.js";
import { hashExamples } from "./environment.js";
import { findJournals, isJournalFinished } from "./find-journals.js";
import type { LoadedVictim } from "./load-victim.js";

/** Told how attacks go. */
export interface AttackCallbacks {
  onStart?(attack: string, done: number, total: number, attacker: Attacker): void;
  onResult?(done: number): void;
  onWarning?(message: string): void;
}

export interface AttackSuiteOptions {
  readonly loadedVictim: LoadedVictim;
  readonly task: Pick<Task, "name" | "labels" | "modifiableFields">;
  readonly split: string;
  readonly examples: readonly Example[];
  /** Names (or paths of searches of one's own) with their options. */
  readonly attacks: readonly { readonly name: string; readonly options: Readonly<Record<string, unknown>> }[];
  /** Journals of other models whose texts are tried too. */
  readonly transferFrom?: readonly string[];
  readonly substitutions: Substitutions;
  readonly languageModel?: LmConstraint | undefined;
  readonly constraints: Constraints;
  readonly seed: number;
  /** The most queries an example may cost. */
  readonly queryBudget?: number | undefined;
  /** Searches at once. */
  readonly concurrency?: number | undefined;
  /** False: scores are neither read from the disk nor kept there. */
  readonly cache?: boolean;
  /** The folder of the journals. */
  readonly out: string;
  readonly resume?: boolean;
  readonly callbacks?: AttackCallbacks;
}

/** What attacks did to a model, and what about the numbers is odd. */
export interface AttackSuiteResult extends AttackSuiteSummary {
  readonly sanity: readonly SanityWarning[];
}

interface PreparedAttack {
  readonly attacker: Attacker;
  readonly languageModel: LmConstraint | undefined;
}

/** Runs attacks one after the other over the same examples, each into its journal OUT/NAME.jsonl, and sums them up. */
export async function runAttackSuite(suiteOptions: AttackSuiteOptions): Promise<AttackSuiteResult> {
  const { loadedVictim, task, examples, out } = suiteOptions;
  const { victim } = loadedVictim;
  if (victim.numLabels !== task.labels.length)
    throw new UserError(
      `${victim.name} gives ${victim.numLabels} probabilities, ${task.name} has ${task.labels.length} labels (${task.labels.join(", ")}); give the model of this task`,
    );
  if (examples.length === 0) throw new UserError(`${task.name}: the ${suiteOptions.split} split is empty`);
  const cache = suiteOptions.cache === false ? new ScoreCache(victim.numLabels) : openScoreCache(victim);
  const pool = new SearchPool(victim, { concurrency: suiteOptions.concurrency ?? loadedVictim.concurrency, cache });
  const planned = await prepareAttacks(suiteOptions, pool);
  const release = lockJournalFolder(out);
  try {
    const dropoutOn = await isNondeterministic(suiteOptions);
    for (const { attacker, languageModel } of planned) await runPreparedAttack(suiteOptions, attacker, languageModel);
    const own = Object.fromEntries(planned.map(({ attacker }) => [attacker.name, getJournalPath(out, attacker.name)]));
    const journals = { ...own, ...(await findFinishedJournals(suiteOptions, own)) };
    const timings: Record<string, AttackTiming> = {};
    for (const [name, path] of Object.entries(journals)) timings[name] = await readTiming(path);
    const summary = await summarize(journals, timings);
    const names = Object.keys(journals);
    const sanity = runSanityChecks(summary, {
      ...loadedVictim.facts,
      dropoutOn,
      whiteBox: names.filter((name) => whiteBoxAttacks.has(name)),
      transfer: names.filter((name) => name.startsWith("transfer-")),
    });
    return { ...summary, sanity };
  } finally {
    cache.close();
    release();
  }
}

/** What earlier commands finished in the folder on the same victim, examples and space: the worst case is over all of it. */
async function findFinishedJournals(
  suiteOptions: AttackSuiteOptions,
  own: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const same = Object.entries({
    ...suiteOptions.loadedVictim.victim.hashes,
    ...computeInputHashes(suiteOptions),
    ...getJournalSettings(suiteOptions),
  });
  const finished: Record<string, string> = {};
  for (const journal of await findJournals(suiteOptions.out)) {
    const there: Record<string, unknown> = { ...journal.header.hashes, ...journal.header.settings };
    const isSame = same.every(([name, value]) => JSON.stringify(there[name]) === JSON.stringify(value));
    if (isSame && !(journal.attack in own) && (await isJournalFinished(journal)))
      finished[journal.attack] = journal.path;
  }
  return finished;
}

function computeInputHashes({ examples, substitutions }: AttackSuiteOptions): Record<string, string> {
  return { data: hashExamples(examples), substitutions: substitutions.hash };
}

function getJournalSettings({ task, split, loadedVictim, constraints }: AttackSuiteOptions): Record<string, unknown> {
  return { task: task.name, split, ...loadedVictim.settings, ...constraints };
}

/** Where an attack's journal lies. */
export function getJournalPath(out: string, attack: string): string {
  return join(out, `${attack}.jsonl`);
}

async function prepareAttacks(
  suiteOptions: AttackSuiteOptions,
  pool: SearchPool<PreparedInput>,
): Promise<PreparedAttack[]> {
  const planned: PreparedAttack[] = [];
  const add = (attacker: Attacker, languageModel?: LmConstraint): void => {
    if (planned.some((other) => other.attacker.name === attacker.name))
      throw new UserError(
        `--attack ${attacker.name} is there twice, and both would write ${attacker.name}.jsonl; use another --out for one`,
      );
    planned.push({ attacker, languageModel });
  };
  for (const { name, options } of suiteOptions.attacks) {
    const white = whiteBoxAttacks.get(name);
    if (white) {
      if (!suiteOptions.loadedVictim.local)
        throw new UserError(
          `attack ${name}: it needs the model's gradients, and an endpoint gives none; use pwws or genetic`,
        );
      add(white.createAttacker(suiteOptions.loadedVictim.local.gradient, options));
    } else {
      const attack = await loadAttack(name, options);
      if (attack.usesLanguageModel && !suiteOptions.languageModel)
        suiteOptions.callbacks?.onWarning?.(
          `${attack.name} runs without a language model's constraint; --lm-constraint FILE gives it one`,
        );
      add(createPoolAttacker(pool, attack), attack.usesLanguageModel ? suiteOptions.languageModel : undefined);
    }
  }
  for (const journal of suiteOptions.transferFrom ?? [])
    add(createPoolAttacker(pool, await createTransferAttack(journal, suiteOptions.examples)));
  return planned;
}

async function runPreparedAttack(
  suiteOptions: AttackSuiteOptions,
  attacker: Attacker,
  languageModel: LmConstraint | undefined,
): Promise<void> {
  const { callbacks } = suiteOptions;
  const total = suiteOptions.examples.length;
  await runAttack({
    attacker,
    attackExamples: createAttackExamples(suiteOptions, languageModel),
    numExamples: total,
    seed: suiteOptions.seed,
    ...(suiteOptions.queryBudget !== undefined && { budget: suiteOptions.queryBudget }),
    hashes: { ...computeInputHashes(suiteOptions), ...(languageModel && { languageModel: languageModel.hash }) },
    settings: getJournalSettings(suiteOptions),
    journalPath: getJournalPath(suiteOptions.out, attacker.name),
    resume: suiteOptions.resume ?? false,
    onStart: (done) => callbacks?.onStart?.(attacker.name, done, total, attacker),
    onResult: (_, done) => callbacks?.onResult?.(done),
  });
}

/** Targets are made when they are needed, so that memory does not grow with them. */
function* createAttackExamples(
  suiteOptions: AttackSuiteOptions,
  languageModel: LmConstraint | undefined,
): Generator<AttackExample> {
  const { loadedVictim, task, substitutions, constraints } = suiteOptions;
  const options = {
    modifiableFields: task.modifiableFields,
    substitutions,
    constraints,
    encode: loadedVictim.encode,
    ...(languageModel && { languageModel }),
  };
  for (const example of suiteOptions.examples) yield createAttackExample(example, options);
}

/** Asks for a few texts twice: a victim that gives other answers has its dropout on, or is not what it seems. */
async function isNondeterministic({ loadedVictim, examples, ...suiteOptions }: AttackSuiteOptions): Promise<boolean> {
  const { victim } = loadedVictim;
  const few = [
    ...createAttackExamples({ ...suiteOptions, loadedVictim: loadedVictim, examples: examples.slice(0, 4) }, undefined),
  ];
  const inputs = few
    .map((target) => victim.prepare(createInputBuilder(target)(createUnchangedCandidate(target))))
    .sort((a, b) => a.length - b.length);
  const [first, second] = [await victim.probabilities(inputs), await victim.probabilities(inputs)];
  return first.some((row, i) => row.some((value, k) => Math.abs(value - second[i]![k]!) > 1e-3));
}

function lockJournalFolder(out: string): () => void {
  try {
    mkdirSync(out, { recursive: true });
  } catch (error) {
    throw createFileError(error, out, "make the folder of the journals");
  }
  return acquireLock(
    join(out, "attack.lock"),
    (owner) => new UserError(`${out}: ${owner} is writing there; wait for it, or give another --out`),
  );
}
