import type { ReadyAttack } from "../../attacks/define-attack.js";
import type { SearchPool } from "../../attacks/pool.js";
import type { QueryBudget } from "../../attacks/protocol.js";
import { runAttack } from "../../attacks/run-attack.js";
import { reportProgress } from "../../base/events.js";
import { getJournalPath } from "../../runs/attack-folder.js";
import { hashExamples } from "../../runs/environment.js";
import type { Example } from "../../tasks/index.js";
import { type AttackCallbacks, readBudget } from "./attack-request.js";
import type { LoadedRequest } from "./prepare-attack.js";

export function getJournalSettings({ task, request, victim, resources }: LoadedRequest): Record<string, unknown> {
  const { split, attackedLabel, maxModificationRate, protectStopWords, matchPartOfSpeech } = request;
  const { protectedText, protect, maxLikelihoodDrop } = request;
  const constraints = {
    maxModificationRate: maxModificationRate ?? 1,
    protectStopWords,
    matchPartOfSpeech,
    ...(protectedText.length > 0 && { protectedText }),
    ...(protect.length > 0 && { protect }),
    ...(attackedLabel !== null && { attackedLabel }),
    ...(maxLikelihoodDrop !== null && { maxLikelihoodDrop }),
    ...(resources.context && {
      minContextSimilarity: resources.context.minSimilarity,
      contextEncoder: resources.context.encoder.hash,
    }),
  };
  const { fields, modifiableFields } = task;
  // In the order in which they are drawn, the examples of a smaller sample come first.
  return {
    ...(modifiableFields.length < fields.length && { modifiableFields }),
    task: task.name,
    split,
    order: "drawn",
    ...victim.settings,
    ...constraints,
  };
}

/** Runs an attack on the examples that its journal lacks. A part continues what another process has left. */
export async function runJournal(
  prepared: LoadedRequest,
  pool: SearchPool,
  ready: ReadyAttack,
  callbacks: AttackCallbacks,
  part: {
    readonly examples: readonly Example[];
    readonly path: string;
    readonly settings: Readonly<Record<string, unknown>>;
    readonly budget?: QueryBudget;
    /** True if the examples may all have no modifiable word. */
    readonly isShard: boolean;
    readonly stage: string;
    /** The examples before this part, and all examples, in progress bars. Default: those of the part alone. */
    readonly first?: number;
    readonly total?: number;
  } | null = null,
): Promise<void> {
  const { request, out } = prepared;
  const { examples } = part ?? prepared;
  const { stage = `attack ${ready.name}`, first = 0, total = examples.length } = part ?? {};
  await runAttack({
    attack: ready,
    pool,
    examples,
    seed: request.seed,
    ...readBudget(request),
    ...(part?.budget !== undefined && { budget: part.budget }),
    hashFirst: (count) => hashExamples(examples.slice(0, count)),
    settings: { ...getJournalSettings(prepared), ...part?.settings },
    journalPath: part?.path ?? getJournalPath(out, ready.name),
    resume: request.resume || part !== null,
    isShard: part?.isShard ?? false,
    onStart: (done) => {
      if (part === null) callbacks.onAttackStart?.(ready.name, done, total, pool.counters);
    },
    onResult: (_, done) => reportProgress(callbacks, stage, first + done, total),
    signal: callbacks.signal,
  });
}
