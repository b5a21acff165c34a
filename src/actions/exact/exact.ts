import { maxWordsChanged } from "../../attacks/constraints/max-words-changed.js";
import { onlyFields } from "../../attacks/constraints/modifiable-fields.js";
import { redactUrl } from "../../attacks/endpoint.js";
import { openProof, readProof } from "../../attacks/exact/proof-file.js";
import type { ResultLine, Substitutions } from "../../attacks/exact/proof-lines.js";
import { countCandidates, proveText } from "../../attacks/exact/prove-text.js";
import { applySubstitutions, listSubstitutions } from "../../attacks/exact/score-candidates.js";
import { type JournalHeader, readJournal } from "../../attacks/journal.js";
import { createRecipeAttack, type LoadedAttack, listResources, loadAttack } from "../../attacks/load-attack.js";
import { createPoolAttacker, SearchPool } from "../../attacks/pool.js";
import type { ResourceName } from "../../attacks/resources.js";
import type { AttackOutcome } from "../../attacks/result.js";
import { runAttack } from "../../attacks/run-attack.js";
import { scoreTexts } from "../../attacks/score-texts.js";
import { UserError } from "../../errors.js";
import { describeDegeneratePredictions } from "../../evaluation/degenerate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mcNemar, wilsonInterval } from "../../evaluation/statistics.js";
import { reportProgress } from "../../events.js";
import { createFolder } from "../../files.js";
import { acquireLock } from "../../lock.js";
import { hashExamples } from "../../runs/environment.js";
import type { Example, Task } from "../../tasks/index.js";
import { Interrupted } from "../../train/index.js";
import { validate } from "../../validate.js";
import { type GivenExamples, getModelFolder, loadCheckedTask } from "../attack/prepare-attack.js";
import { sampleAttacked } from "../attack/sample-attacked.js";
import { type LoadedResources, loadAttackResources } from "../load/load-resources.js";
import { isEndpoint, type LoadedVictim, loadVictim } from "../load/load-victim.js";
import {
  type AttackGap,
  type ExactCallbacks,
  type ExactReport,
  type ExactRequest,
  type ExactText,
  exactRequestSchema,
  type FunctionExactRequest,
  type ParsedExactRequest,
} from "./exact-request.js";
import { getProofPath, type PreparedText, prepareTexts } from "./prepare-exact.js";

export type { ExactReport, ExactRequest };

/** Everything that an exact evaluation needs, loaded. */
interface PreparedExact {
  readonly request: ParsedExactRequest;
  readonly victim: LoadedVictim;
  readonly task: Task;
  readonly examples: readonly Example[];
  readonly attacks: readonly LoadedAttack[];
  readonly resources: LoadedResources;
}

/** What an attack found: the substitutions of each text that it fooled, otherwise null. */
interface FoundTexts {
  readonly name: string;
  readonly results: readonly { readonly outcome: AttackOutcome; readonly edits: Substitutions }[];
}

/**
 * Computes exact robust accuracy: for each text the smallest number of substitutions that fools the
 * model, or the proof that no set of at most `maxChanges` does. The proof is a file that `verify`
 * checks. The same call continues a proof that was stopped.
 *
 *     const { exact, texts } = await exact({ model: "runs/reviews", maxChanges: 2 });
 *     console.log(exact[2]?.accuracy, texts[0]?.minChanges);
 */
export async function exact(
  request: ExactRequest | FunctionExactRequest,
  callbacks: ExactCallbacks = {},
  given: GivenExamples | null = null,
): Promise<ExactReport> {
  const { model } = request;
  const named = { ...request, model: typeof model === "function" ? model.name || "function" : model };
  const parsed = validate(exactRequestSchema, named, "exact");
  const { onEvent } = callbacks;
  const victim = await loadVictim(model, {
    ...parsed,
    precision: parsed.precision ?? "auto",
    isConfirmed: true,
    onEvent,
  });
  try {
    const task = await loadCheckedTask(parsed, victim, given?.task ?? null, callbacks);
    const { examples } = given ?? (await sampleAttacked(task, { ...parsed, attackedLabel: null }, null));
    const attacks: LoadedAttack[] = [];
    for (const spec of parsed.attacks) attacks.push(await loadAttack(spec));
    const needs: ResourceName[] = ["substitutions", "context", ...attacks.flatMap(listResources)];
    const source = { ...parsed, vectors: null, maskedLm: null };
    const resources = await loadAttackResources(needs, source, victim, task.labels, callbacks);
    try {
      return await runExact({ request: parsed, victim, task, examples, attacks, resources }, callbacks);
    } finally {
      resources.close();
    }
  } finally {
    victim.close();
  }
}

async function runExact(prepared: PreparedExact, callbacks: ExactCallbacks): Promise<ExactReport> {
  const { request, victim, task, examples } = prepared;
  const { maxChanges } = request;
  const out = request.out ?? getModelFolder("exact", request.model, victim.local?.run ?? null);
  const header = createHeader(prepared);
  const path = getProofPath(out, maxChanges, header);
  createFolder(out);
  const release = acquireLock(
    `${path}.lock`,
    (owner) => new UserError(`${path} is being written by ${owner}. Wait until it ends, or choose a different --out.`),
  );
  try {
    const { modifiableFields } = task;
    const { resources } = prepared.resources;
    const texts = await prepareTexts(examples, victim, resources, { modifiableFields, maxChanges });
    const found = await runAttacks(prepared, path, callbacks);
    const bounds = texts.map((text, i) => chooseBound(found, text, i));
    const { results, repeated, textsPerSecond } = await writeProof(prepared, path, header, texts, bounds, callbacks);
    const rows = await scoreTexts(
      victim.victim,
      examples.map((example) => example.texts),
    );
    const gold = examples.map(({ label }) => label);
    return {
      examples: examples.length,
      degeneracy: describeDegeneratePredictions(toPredictions(rows), gold, task.labels),
      exact: summarizeResults(results, maxChanges),
      texts: results.map((result, i) => createText(result, examples[i]!, texts[i]!)),
      attacks: Object.fromEntries(found.map((each) => [each.name, measureGap(each, results)])),
      task: task.name,
      split: request.split,
      data: hashExamples(examples),
      scored: results.reduce((sum, { scored }) => sum + scored, 0),
      ...{ repeated, textsPerSecond, proof: path },
    };
  } finally {
    release();
  }
}

/** Everything that decides the lines of a proof. */
function createHeader({ request, victim, task, examples, attacks, resources }: PreparedExact): JournalHeader {
  const { maxChanges, budget, seed, split } = request;
  const { substitutions, context } = resources.resources;
  const { decidedMargin, hash } = victim.victim;
  return {
    attack: "exact",
    options: { maxChanges, budget, attacks: attacks.map(({ name, options }) => ({ name, options })) },
    hashes: {
      ...victim.victim.hashes,
      victim: hash,
      substitutions: substitutions!.hash,
      ...(context && { contextEncoder: context.encoder.hash }),
      data: hashExamples(examples),
    },
    settings: {
      model: isEndpoint(request.model) ? redactUrl(request.model) : request.model,
      ...{ task: task.name, split, modifiableFields: task.modifiableFields, ...victim.settings },
      ...(decidedMargin !== undefined && { decidedMargin }),
      ...(context && { minContextSimilarity: context.minSimilarity }),
    },
    seed,
    examples: examples.length,
  };
}

/** Attacks all examples, because levels from a success on need no enumeration. */
async function runAttacks(
  { request, victim, task, examples, attacks, resources }: PreparedExact,
  proofPath: string,
  callbacks: ExactCallbacks,
): Promise<FoundTexts[]> {
  const { maxChanges, seed, split } = request;
  if (maxChanges === 0) return [];
  const constraints = [onlyFields(task.modifiableFields), maxWordsChanged({ count: maxChanges })];
  const pool = new SearchPool(victim.victim, { concurrency: victim.concurrency });
  const total = examples.length;
  const found: FoundTexts[] = [];
  for (const attack of attacks) {
    const { name } = attack;
    const journalPath = proofPath.replace(/\.jsonl$/, `-${name}.jsonl`);
    const recipe = createRecipeAttack(attack, resources.resources, constraints);
    if (!recipe.recipe.transformations.every(({ isTable }) => isTable))
      throw new UserError(
        `--attack ${name}: expected an attack with the substitutes of the table, such as pwws, greedy or genetic. ` +
          "Others have other candidates, so there is nothing to compare.",
      );
    await runAttack({
      ...{ attacker: createPoolAttacker(pool, recipe), examples, seed, journalPath, resume: true },
      hashFirst: (count) => hashExamples(examples.slice(0, count)),
      settings: { task: task.name, split, ...victim.settings, maxChanges },
      onResult(_, done) {
        reportProgress(callbacks, `attack ${name}`, done, total);
        stopIfAborted(callbacks, 0, examples);
      },
    });
    const results: FoundTexts["results"][number][] = [];
    for await (const { result } of readJournal(journalPath))
      results.push({
        outcome: result.outcome,
        edits: result.edits.map(({ position, to }) => [position, to] as const),
      });
    found.push({ name, results });
  }
  return found;
}

/**
 * The smallest set of substitutions with which an attack fooled a text; null if none did. Of equal
 * substitutes, the reduced space has only one. A set with another one is left out.
 */
function chooseBound(found: readonly FoundTexts[], { words }: PreparedText, index: number): Substitutions | null {
  const allowed = new Set(listSubstitutions({ words }).map(([position, word]) => `${position} ${word}`));
  const sets = found
    .map(({ results }) => results[index]!)
    .filter(({ outcome, edits }) => outcome === "success" && edits.every((edit) => allowed.has(edit.join(" "))))
    .map(({ edits }) => edits)
    .sort((a, b) => a.length - b.length);
  return sets[0] ?? null;
}

function measureGap({ results }: FoundTexts, exactResults: readonly ResultLine[]): AttackGap {
  const count = results.length;
  const isRobust = ({ outcome }: FoundTexts["results"][number]): boolean => outcome === "failed";
  const missed = results.filter((result, i) => isRobust(result) && exactResults[i]!.minChanges !== null).length;
  return {
    accuracyUnderAttack: results.filter(isRobust).length / count,
    gap: missed / count,
    // No attack fools a text that is proven robust.
    p: mcNemar(missed, 0).exact,
  };
}

async function writeProof(
  { request, victim, examples }: PreparedExact,
  path: string,
  header: JournalHeader,
  texts: readonly PreparedText[],
  attacks: readonly (Substitutions | null)[],
  callbacks: ExactCallbacks,
): Promise<{ results: ResultLine[] } & Pick<ExactReport, "repeated" | "textsPerSecond">> {
  const { maxChanges } = request;
  const budget = request.budget ?? Number.POSITIVE_INFINITY;
  const writer = await openProof(path, header);
  try {
    const { texts: known } = await readProof(path);
    const sizes = texts.map(({ words }, i) => {
      const levels = Math.min(maxChanges, attacks[i] ? attacks[i].length - 1 : maxChanges);
      return Math.min(budget, countCandidates(words, levels));
    });
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const results: ResultLine[] = [];
    // The most that can be left. A text that is fooled early needs less.
    const isFinished = (index: number): boolean => known.get(index)?.at(-1)?.kind === "result";
    callbacks.onStart?.(
      sizes.reduce((sum, size, index) => sum + (isFinished(index) ? size : 0), 0),
      total,
    );
    let [finished, scored, repeated] = [0, 0, 0];
    const start = performance.now();
    for (const [index, { original, words }] of texts.entries()) {
      const lines = known.get(index) ?? [];
      const problem = { index, example: examples[index]!, original, words, attack: attacks[index]! };
      let inText = 0;
      const onCall = (count: number): void => {
        scored += count;
        inText += count;
        reportProgress(callbacks, "exact", Math.min(finished + inText, total), total);
        stopIfAborted(callbacks, results.length, examples);
      };
      let position = 0;
      for await (const line of proveText(victim.victim, problem, { maxChanges, budget, onCall }, lines)) {
        if (position++ >= lines.length) writer.append(line);
        if (line.kind === "block") repeated += line.repeated;
        if (line.kind === "result") results.push(line);
      }
      finished += sizes[index]!;
      reportProgress(callbacks, "exact", finished, total);
      stopIfAborted(callbacks, results.length, examples);
    }
    const textsPerSecond = scored > 0 ? (1000 * scored) / (performance.now() - start) : null;
    return { results, repeated, textsPerSecond };
  } finally {
    writer.close();
  }
}

function stopIfAborted({ signal }: ExactCallbacks, done: number, examples: readonly Example[]): void {
  if (signal?.aborted)
    throw new Interrupted(
      `Stopped after ${done} of ${examples.length} texts. The proof has every finished block; run the same command ` +
        "again to continue.",
    );
}

function createText(
  { index, minChanges, provenUpTo, edits }: ResultLine,
  { id }: Example,
  text: PreparedText,
): ExactText {
  const finalTexts = edits && applySubstitutions(text.original, edits).texts;
  return { index, id, minChanges, provenUpTo, finalTexts };
}

/** Robust accuracy at 0 … `maxChanges` substitutions. */
function summarizeResults(results: readonly ResultLine[], maxChanges: number): ExactReport["exact"] {
  const count = results.length;
  return Array.from({ length: maxChanges + 1 }, (_, changes) => {
    const proven = results.filter(({ provenUpTo }) => provenUpTo >= changes).length;
    const fooled = results.filter(({ minChanges }) => minChanges !== null && minChanges <= changes).length;
    const interval = wilsonInterval(proven, count);
    return { changes, accuracy: proven / count, interval, open: count - proven - fooled };
  });
}
