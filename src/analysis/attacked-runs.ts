import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { summarizeJournal } from "../evaluation/journal-summary.js";
import { exists } from "../files.js";
import type { AnalyzedRun } from "./load-runs.js";

/** A run with what attacks left of its accuracy, by attack. */
export interface AttackedRun extends AnalyzedRun {
  /** Accuracy on the task's report split. */
  readonly clean: number;
  readonly attacks: ReadonlyMap<
    string,
    { readonly accuracy: number; readonly low: number; readonly high: number; readonly examples: number }
  >;
}

/** The order in which panels stand: those of RIFT's figure 4 first. */
const panelOrder = ["genetic", "pwws"];

/** Reads the finished journals in a run's attacks/ folder; those that are not finished are told of and left out. */
export async function readAttackedRun(run: AnalyzedRun, warn: (message: string) => void): Promise<AttackedRun> {
  const folder = join(run.folder, "attacks");
  const files = (await exists(folder)) ? (await readdir(folder)).filter((name) => name.endsWith(".jsonl")).sort() : [];
  const attacks = new Map<string, { accuracy: number; low: number; high: number; examples: number }>();
  for (const file of files) {
    const { header, results, summary } = await summarizeJournal(join(folder, file), undefined);
    if (results.length < header.examples) {
      warn(
        `${join(folder, file)}: ${results.length} of ${header.examples} examples are done, so it is left out; go on with temper attack --resume`,
      );
      continue;
    }
    attacks.set(file.replace(/\.jsonl$/, ""), {
      accuracy: summary.accuracyUnderAttack,
      ...summary.interval,
      examples: results.length,
    });
  }
  return { ...run, clean: run.results.test.accuracy, attacks };
}

/** The attacks that any of the runs has met. */
export function listAttackNames(runs: readonly AttackedRun[]): string[] {
  const names = [...new Set(runs.flatMap((run) => [...run.attacks.keys()]))];
  const rank = (name: string): number => (panelOrder.includes(name) ? panelOrder.indexOf(name) : panelOrder.length);
  return names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}
