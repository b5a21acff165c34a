import { readJournal } from "../attacks/journal.js";
import type { AttackResult } from "../attacks/result.js";

/** TextAttack's summary of an attack, with its keys. Percentages have two places. */
export async function formatTextAttackSummary(journal: string): Promise<Record<string, Record<string, number>>> {
  const counts = { successful: 0, failed: 0, skipped: 0 };
  const perturbed: number[] = [];
  const queries: number[] = [];
  let words = 0;
  for await (const { result } of readJournal(journal)) {
    words += result.words.length;
    if (result.outcome === "skipped") counts.skipped++;
    else {
      const isMaximized = result.goal === "input-reduction";
      counts[result.outcome === "success" || isMaximized ? "successful" : "failed"]++;
      queries.push(result.queries);
      if (result.outcome === "success" || isMaximized) perturbed.push(computePerturbedRate(result));
    }
  }
  const { successful, failed, skipped } = counts;
  const total = successful + failed + skipped;
  const percent = (part: number, whole: number): number => (whole === 0 ? 0 : round((100 * part) / whole));
  const changed = perturbed.filter((value) => value > 0);
  return {
    "Attack Results": {
      "Number of successful attacks:": successful,
      "Number of failed attacks:": failed,
      "Number of skipped attacks:": skipped,
      "Original accuracy:": percent(total - skipped, total),
      "Accuracy under attack:": percent(failed, total),
      "Attack success rate:": percent(successful, successful + failed),
      "Average perturbed word %:": round(100 * average(changed)),
      "Average num. words per input:": round(total === 0 ? 0 : words / total),
      "Avg num queries:": round(average(queries)),
    },
  };
}

/** Words that differ at their position, of the shorter text, per original word. */
function computePerturbedRate({ words, finalWords }: AttackResult): number {
  const length = Math.min(words.length, finalWords.length);
  let different = 0;
  for (let i = 0; i < length; i++) if (words[i] !== finalWords[i]) different++;
  return words.length === 0 ? 0 : different / words.length;
}

function average(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function round(value: number): number {
  return Math.round(100 * value) / 100;
}
