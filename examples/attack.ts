/**
 * Attacks the model of a run with PWWS and prints the words that fooled it.
 *
 *     npx tsx examples/attack.ts runs/spam-standard-seed0
 */
import { join } from "node:path";
import { type AttackReport, Run } from "temper-nlp";
import { readJournal } from "temper-nlp/attacks";

export async function attackRun(folder: string, substitutions: string, numExamples = 50): Promise<AttackReport> {
  const run = await Run.open(folder);
  const report = await run.attack("pwws", { substitutions, numExamples });
  const { accuracyUnderAttack, successRate } = report.attacks.pwws!;
  console.log(`accuracy ${report.clean.toFixed(3)}, under attack ${accuracyUnderAttack.toFixed(3)}`);
  console.log(`${(100 * successRate).toFixed(0)}% of the correctly classified texts were fooled`);
  for await (const { result } of readJournal(join(run.path("attacks"), "pwws.jsonl"))) {
    if (result.outcome !== "success") continue;
    console.log(result.words.join(" "));
    console.log(`  ${result.edits.map(({ from, to }) => `${from} -> ${to}`).join(", ")}`);
  }
  return report;
}

if (process.argv[1] === import.meta.filename) {
  const [folder = "runs/spam-standard-seed0", substitutions = "wordnet"] = process.argv.slice(2);
  await attackRun(folder, substitutions);
}
