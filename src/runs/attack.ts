import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Attacker } from "../attacks/attacker.js";
import type { Constraints } from "../attacks/constraints.js";
import { gradientAttacks, openAttack } from "../attacks/index.js";
import { Pool, poolAttacker } from "../attacks/pool.js";
import { readTiming, runAttack, type Timing } from "../attacks/run.js";
import { openScoreCache, ScoreCache } from "../attacks/score-cache.js";
import { unchanged } from "../attacks/search.js";
import { inputsOf, type Target, targetOf } from "../attacks/target.js";
import { transferAttack } from "../attacks/transfer.js";
import type { Prepared } from "../attacks/victim.js";
import { UserError } from "../errors.js";
import { type SanityFlag, sanityFlags } from "../evaluation/attack-sanity.js";
import { type EvaluationSummary, summarise } from "../evaluation/attack-summary.js";
import { fileError } from "../files.js";
import { acquireLock } from "../lock.js";
import type { Example, Task } from "../tasks/task.js";
import type { LanguageModelSwaps } from "../text/language-model-swaps.js";
import type { Substitutions } from "../text/substitutions.js";
import { hashExamples } from "./environment.js";
import { isFinished, journalsIn } from "./journals.js";
import type { OpenedVictim } from "./victim.js";

/** Told how attacks go. */
export interface AttackWatcher {
  onStart?(attack: string, done: number, total: number, attacker: Attacker): void;
  onResult?(done: number): void;
  onNotice?(message: string): void;
}

export interface AttackPlan {
  readonly opened: OpenedVictim;
  readonly task: Pick<Task, "name" | "labels" | "openFields">;
  readonly split: string;
  readonly examples: readonly Example[];
  /** Names (or paths of searches of one's own) with their options. */
  readonly attacks: readonly { readonly name: string; readonly options: Readonly<Record<string, unknown>> }[];
  /** Journals of other models whose texts are tried too. */
  readonly transfer?: readonly string[];
  readonly substitutions: Substitutions;
  readonly languageModel?: LanguageModelSwaps | undefined;
  readonly constraints: Constraints;
  readonly seed: number;
  /** The most queries an example may cost. */
  readonly budget?: number | undefined;
  /** Searches at once. */
  readonly pool?: number | undefined;
  /** False: scores are neither read from the disk nor kept there. */
  readonly cache?: boolean;
  /** The folder of the journals. */
  readonly out: string;
  readonly resume?: boolean;
  readonly watch?: AttackWatcher;
}

/** What attacks did to a model, and what about the numbers is odd. */
export interface AttackReport extends EvaluationSummary {
  readonly sanity: readonly SanityFlag[];
}

interface Planned {
  readonly attacker: Attacker;
  readonly languageModel: LanguageModelSwaps | undefined;
}

/** Runs attacks one after the other over the same examples, each into its journal OUT/NAME.jsonl, and sums them up. */
export async function runAttacks(plan: AttackPlan): Promise<AttackReport> {
  const { opened, task, examples, out } = plan;
  const { victim } = opened;
  if (victim.classes !== task.labels.length)
    throw new UserError(
      `${victim.name} gives ${victim.classes} probabilities, ${task.name} has ${task.labels.length} labels (${task.labels.join(", ")}); give the model of this task`,
    );
  if (examples.length === 0) throw new UserError(`${task.name}: the ${plan.split} split is empty`);
  const cache = plan.cache === false ? new ScoreCache(victim.classes) : openScoreCache(victim);
  const pool = new Pool(victim, { searches: plan.pool ?? opened.searches, cache });
  const planned = await planAttacks(plan, pool);
  const release = lockFolder(out);
  try {
    const dropoutOn = await changesItsMind(plan);
    for (const { attacker, languageModel } of planned) await runOne(plan, attacker, languageModel);
    const own = Object.fromEntries(planned.map(({ attacker }) => [attacker.name, journalPath(out, attacker.name)]));
    const journals = { ...own, ...(await finishedBefore(plan, own)) };
    const timings: Record<string, Timing> = {};
    for (const [name, path] of Object.entries(journals)) timings[name] = await readTiming(path);
    const summary = await summarise(journals, timings);
    const names = Object.keys(journals);
    const sanity = sanityFlags(summary, {
      ...opened.facts,
      dropoutOn,
      whiteBox: names.filter((name) => gradientAttacks.has(name)),
      transfer: names.filter((name) => name.startsWith("transfer-")),
    });
    return { ...summary, sanity };
  } finally {
    cache.close();
    release();
  }
}

/** What earlier commands finished in the folder on the same victim, examples and space: the worst case is over all of it. */
async function finishedBefore(plan: AttackPlan, own: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const same = Object.entries({ ...plan.opened.victim.hashes, ...hashesOf(plan), ...settingsOf(plan) });
  const finished: Record<string, string> = {};
  for (const journal of await journalsIn(plan.out)) {
    const there: Record<string, unknown> = { ...journal.header.hashes, ...journal.header.settings };
    const isSame = same.every(([name, value]) => JSON.stringify(there[name]) === JSON.stringify(value));
    if (isSame && !(journal.attack in own) && (await isFinished(journal))) finished[journal.attack] = journal.path;
  }
  return finished;
}

function hashesOf({ examples, substitutions }: AttackPlan): Record<string, string> {
  return { data: hashExamples(examples), substitutions: substitutions.hash };
}

function settingsOf({ task, split, opened, constraints }: AttackPlan): Record<string, unknown> {
  return { task: task.name, split, ...opened.settings, ...constraints };
}

/** Where an attack's journal lies. */
export function journalPath(out: string, attack: string): string {
  return join(out, `${attack}.jsonl`);
}

async function planAttacks(plan: AttackPlan, pool: Pool<Prepared>): Promise<Planned[]> {
  const planned: Planned[] = [];
  const add = (attacker: Attacker, languageModel?: LanguageModelSwaps): void => {
    if (planned.some((other) => other.attacker.name === attacker.name))
      throw new UserError(
        `--attack ${attacker.name} is there twice, and both would write ${attacker.name}.jsonl; use another --out for one`,
      );
    planned.push({ attacker, languageModel });
  };
  for (const { name, options } of plan.attacks) {
    const white = gradientAttacks.get(name);
    if (white) {
      if (!plan.opened.local)
        throw new UserError(`attack ${name}: it needs the model's gradients, and an endpoint gives none; use pwws or genetic`);
      add(white.open(plan.opened.local.gradient, options));
    } else {
      const attack = await openAttack(name, options);
      if (attack.languageModel && !plan.languageModel)
        plan.watch?.onNotice?.(`${attack.name} runs without a language model's constraint; --language-model-swaps FILE gives it one`);
      add(poolAttacker(pool, attack), attack.languageModel ? plan.languageModel : undefined);
    }
  }
  for (const journal of plan.transfer ?? []) add(poolAttacker(pool, await transferAttack(journal, plan.examples)));
  return planned;
}

async function runOne(plan: AttackPlan, attacker: Attacker, languageModel: LanguageModelSwaps | undefined): Promise<void> {
  const { watch } = plan;
  const total = plan.examples.length;
  await runAttack({
    attacker,
    targets: targetsOf(plan, languageModel),
    examples: total,
    seed: plan.seed,
    ...(plan.budget !== undefined && { budget: plan.budget }),
    hashes: { ...hashesOf(plan), ...(languageModel && { languageModel: languageModel.hash }) },
    settings: settingsOf(plan),
    journal: journalPath(plan.out, attacker.name),
    resume: plan.resume ?? false,
    onStart: (done) => watch?.onStart?.(attacker.name, done, total, attacker),
    onResult: (_, done) => watch?.onResult?.(done),
  });
}

/** Targets are made when they are needed, so that memory does not grow with them. */
function* targetsOf(plan: AttackPlan, languageModel: LanguageModelSwaps | undefined): Generator<Target> {
  const { opened, task, substitutions, constraints } = plan;
  const options = {
    openFields: task.openFields,
    substitutions,
    constraints,
    encode: opened.encode,
    ...(languageModel && { languageModel }),
  };
  for (const example of plan.examples) yield targetOf(example, options);
}

/** Asks for a few texts twice: a victim that gives other answers has its dropout on, or is not what it seems. */
async function changesItsMind({ opened, examples, ...plan }: AttackPlan): Promise<boolean> {
  const { victim } = opened;
  const few = [...targetsOf({ ...plan, opened, examples: examples.slice(0, 4) }, undefined)];
  const inputs = few.map((target) => victim.prepare(inputsOf(target)(unchanged(target)))).sort((a, b) => a.length - b.length);
  const [first, second] = [await victim.probabilities(inputs), await victim.probabilities(inputs)];
  return first.some((row, i) => row.some((value, k) => Math.abs(value - second[i]![k]!) > 1e-3));
}

function lockFolder(out: string): () => void {
  try {
    mkdirSync(out, { recursive: true });
  } catch (error) {
    throw fileError(error, out, "make the folder of the journals");
  }
  return acquireLock(
    join(out, "attack.lock"),
    (owner) => new UserError(`${out}: ${owner} is writing there; wait for it, or give another --out`),
  );
}
