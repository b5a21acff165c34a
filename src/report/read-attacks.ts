import { readEntries } from "../attacks/journal.js";
import { readTiming } from "../attacks/run.js";
import { type SanityFlag, sanityFlags } from "../evaluation/attack-sanity.js";
import { type EvaluationSummary, summarise } from "../evaluation/attack-summary.js";
import { type JournalSummary, summariseJournal } from "../evaluation/journal-summary.js";

/** One attack on a model, without its texts. */
export interface AttackRead extends JournalSummary {
  readonly path: string;
}

/** The attacks on a run's model, by name. */
export interface RunAttacks {
  readonly journals: ReadonlyMap<string, AttackRead>;
  /** All of them together; null where they did not see the same examples. */
  readonly together: EvaluationSummary | null;
  readonly flags: readonly SanityFlag[];
}

/** Attacks that read the model's gradients. */
const whiteBox = ["ascc"];

/** Reads the journals of a run; those that have no result yet are left out. */
export async function readAttacks(paths: ReadonlyMap<string, string>, trainedEncoding: string): Promise<RunAttacks> {
  const journals = new Map<string, AttackRead>();
  for (const [name, path] of paths) {
    if (await hasResults(path)) journals.set(name, { ...(await summariseJournal(path, await readTiming(path))), path });
  }
  const reads = [...journals.values()];
  const [first] = reads;
  if (!first || !reads.every((read) => sameExamples(read, first))) return { journals, together: null, flags: [] };
  const together = await summarise(Object.fromEntries([...journals].map(([name, { path }]) => [name, path])));
  const { encoding } = first.header.settings;
  const facts = { trainedEncoding, whiteBox, ...(typeof encoding === "string" ? { encoding } : {}) };
  return { journals, together, flags: sanityFlags(together, facts) };
}

/** Whether two journals are about the same examples in the same order: only then can they be compared one by one. */
export function sameExamples(first: Pick<JournalSummary, "results">, second: Pick<JournalSummary, "results">): boolean {
  return first.results.length === second.results.length && first.results.every(({ id }, i) => id === second.results[i]!.id);
}

async function hasResults(path: string): Promise<boolean> {
  for await (const { line, value } of readEntries(path)) if (line === 2) return value !== undefined;
  return false;
}
