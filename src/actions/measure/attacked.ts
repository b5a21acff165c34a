import { readJournal } from "../../attacks/journal.js";
import type { AttackResult } from "../../attacks/result.js";
import { Interrupted } from "../../base/errors.js";
import { type AttackFolder, findJournals, getJournalPath, readAttackFolder } from "../../runs/attack-folder.js";
import { attack } from "../attack/attack.js";
import type { AttackCallbacks, AttackRequest } from "../attack/attack-request.js";
import type { GivenExamples } from "../load/open-victim.js";

/** An attack whose journals are in a folder of its own. */
type MeasuredRequest = Omit<AttackRequest, "model"> & {
  readonly model: Parameters<typeof attack>[0]["model"];
  readonly out: string;
};

/**
 * Attacks a model and reads what the journals say. audit, gate and harden have their numbers from here. After
 * the time limit, the texts that are finished by then are measured.
 */
export async function measureAttacks(
  request: MeasuredRequest,
  callbacks: AttackCallbacks,
  given: GivenExamples | null = null,
  timeLimit?: AbortSignal,
): Promise<AttackFolder> {
  const signals = [callbacks.signal, timeLimit].filter((signal) => signal !== undefined);
  try {
    await attack(request, { ...callbacks, ...(signals.length > 0 && { signal: AbortSignal.any(signals) }) }, given);
  } catch (error) {
    if (!(error instanceof Interrupted) || callbacks.signal?.aborted || !timeLimit?.aborted) throw error;
  }
  return readAttackFolder(request.out);
}

/** An attack on a text, with the settings and hashes of its journal. */
export interface MeasuredResult {
  readonly attack: string;
  readonly result: AttackResult;
  readonly hashes: Readonly<Record<string, string>>;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** Reads every result of every journal in a folder. */
export async function* readMeasuredResults(folder: string): AsyncGenerator<MeasuredResult> {
  for (const name of await findJournals(folder))
    for await (const { header, result } of readJournal(getJournalPath(folder, name)))
      yield { attack: name, result, hashes: header.hashes, settings: header.settings };
}
