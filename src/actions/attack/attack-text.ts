import { isDeepStrictEqual } from "node:util";
import type { ReadyAttack } from "../../attacks/define-attack.js";
import { findLabel, margin } from "../../attacks/goals.js";
import { SearchPool } from "../../attacks/pool.js";
import type { ScoredCandidate } from "../../attacks/protocol.js";
import type { AttackResult } from "../../attacks/result.js";
import { renderQuery } from "../../attacks/run-recipe.js";
import { listChanges, type WordChange } from "../../attacks/word-changes.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import { toFlag } from "../../base/shell.js";
import { validate } from "../../base/validate.js";
import { toPredictions } from "../../evaluation/metrics.js";
import type { Task } from "../../tasks/index.js";
import type { LoadedVictim } from "../load/load-victim.js";
import { type AttackRequest, attackRequestSchema, type ParsedAttackRequest, readBudget } from "./attack-request.js";
import { openAttackedVictim, prepareAttacks } from "./prepare-attack.js";

export interface SearchStep {
  /** Texts that were scored in this call, and in all calls so far. */
  readonly texts: number;
  readonly queries: number;
  /** The text of this call that is closest to another class, and the probability of its label. */
  readonly best: readonly string[];
  readonly probability: number;
  /** The changes of the best text of all calls, and its probabilities. */
  readonly edits: readonly WordChange[];
  readonly probabilities: readonly number[];
  /** Original words that the texts of this call hid or changed. */
  readonly tried: readonly number[];
}

export interface WatchedResult {
  readonly attack: string;
  readonly labels: readonly string[];
  readonly result: AttackResult;
  readonly steps: readonly SearchStep[];
}

export interface SearchOptions {
  /** The true label, by name or index. Without one, it is the predicted class. */
  readonly label?: string | number | undefined;
  readonly signal?: AbortSignal | undefined;
  onStep?(step: SearchStep): void;
}

/** Attacks single texts of any label, one after the other, with the model loaded once. */
export interface TextAttacker {
  readonly labels: readonly string[];
  attack(texts: readonly string[], options?: SearchOptions): Promise<WatchedResult[]>;
  close(): void;
}

/** Texts per call of the victim. Fewer would be slower, more would hide what the attack does. */
const maxCallSize = 16;

/**
 * Loads a model to attack texts that are not in a dataset. A loaded `victim` stays open.
 *
 *     const attacker = await createTextAttacker({ model: "runs/reviews", attacks: ["textfooler"] });
 *     const [{ result }] = await attacker.attack(["A quiet film."], { label: "positive" });
 */
export async function createTextAttacker(
  request: AttackRequest,
  callbacks: Callbacks = {},
  given: (Pick<Task, "labels" | "modifiableFields"> & { readonly victim: LoadedVictim }) | null = null,
): Promise<TextAttacker> {
  const parsed = validate(attackRequestSchema, request, "attack");
  rejectDatasetOptions(parsed);
  const model = given ? { ...given.victim, close: () => undefined } : parsed.model;
  const victim = await openAttackedVictim(model, parsed, callbacks);
  try {
    const labels = given?.labels ?? listLabels(victim);
    // Every field of a text that somebody typed may change.
    const modifiableFields = given?.modifiableFields ?? [0, 1];
    const trained = victim.local?.run?.config.substitutions;
    const substitutions = parsed.substitutions ?? trained ?? "wordnet";
    const task = { labels, modifiableFields };
    const { attacks } = await prepareAttacks({ ...parsed, substitutions }, victim, task, callbacks);
    const pool = new SearchPool(victim.victim, { maxCallSize });
    return {
      labels,
      async attack(texts, options = {}) {
        const { label } = options;
        const index = label === undefined ? await predictLabel(victim, texts) : findLabel(label, labels);
        const done: WatchedResult[] = [];
        for (const each of attacks)
          done.push({ labels, ...(await attackText(pool, each, texts, index, parsed, options)) });
        return done;
      },
      close: victim.close,
    };
  } catch (error) {
    victim.close();
    throw error;
  }
}

const datasetKeys = ["transferFrom", "out", "resume", "saveDataset"] as const;

/** Options that are about datasets and journals would have no effect on a single text. */
function rejectDatasetOptions(request: ParsedAttackRequest): void {
  const defaults = attackRequestSchema.parse({ model: request.model });
  const given = datasetKeys.find((key) => !isDeepStrictEqual(request[key], defaults[key]));
  if (given !== undefined)
    throw new UserError(`${toFlag(given)} is for attacks on a dataset. Leave it out to attack a single text.`);
}

function listLabels({ local, victim }: LoadedVictim): readonly string[] {
  return local?.model.labels ?? Array.from({ length: victim.numLabels }, (_, i) => String(i));
}

async function attackText(
  pool: SearchPool,
  attack: ReadyAttack,
  texts: readonly string[],
  label: number,
  request: ParsedAttackRequest,
  { signal, onStep }: SearchOptions,
): Promise<Omit<WatchedResult, "labels">> {
  const steps: SearchStep[] = [];
  const follow = createFollower(label);
  const results = pool.run([{ id: "input", texts, label }], attack, {
    seed: request.seed,
    signal,
    ...readBudget(request),
    onScores(_, scored) {
      const step = follow(scored);
      steps.push(step);
      onStep?.(step);
    },
  });
  for await (const result of results) return { attack: attack.name, result, steps };
  throw new Error("a search ends with a result");
}

function createFollower(label: number): (scored: readonly ScoredCandidate[]) => SearchStep {
  let queries = 0;
  let best: ScoredCandidate | null = null;
  return (scored) => {
    queries += scored.length;
    for (const candidate of scored)
      if (!candidate.hidden && (best === null || margin(candidate, label) < margin(best, label))) best = candidate;
    const lowest = scored.reduce((a, b) => (b.probabilities[label]! < a.probabilities[label]! ? b : a));
    return {
      texts: scored.length,
      queries,
      best: renderQuery(lowest, "[UNK]"),
      probability: lowest.probabilities[label]!,
      edits: best ? listChanges(best.text) : [],
      probabilities: best ? Array.from(best.probabilities) : [],
      tried: [...new Set(scored.flatMap(listTried))],
    };
  };
}

function listTried({ text, hidden }: ScoredCandidate): number[] {
  if (hidden) return [text.getOrigin(hidden.position)];
  return listChanges(text).map(({ position }) => position);
}

async function predictLabel({ victim }: LoadedVictim, texts: readonly string[]): Promise<number> {
  const [answer] = await victim.predict(victim.prepare([texts]));
  return toPredictions([answer!.probabilities])[0]!;
}
