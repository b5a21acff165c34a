/**
 * Attacks a model with PWWS and shows which words fooled it.
 *
 *     npx tsx examples/attack.ts runs/spam-standard-seed0 wordnet
 */
import {
  type AttackReport,
  constraintOptions,
  joinWords,
  limitExamples,
  loadSubstitutions,
  openConfigTask,
  openVictim,
  readJournal,
  runAttacks,
} from "temper-nlp";

export async function attackRun(run: string, table: string, out: string, count = 50): Promise<AttackReport> {
  const victim = await openVictim(run);
  try {
    const config = victim.local?.run?.config;
    if (!config) throw new Error(`${run}: expected the folder of a run`);
    const task = await openConfigTask(config, console.log);
    const report = await runAttacks({
      loadedVictim: victim,
      task,
      split: "test",
      examples: limitExamples(await task.load("test"), count, 0, task.labels.length),
      attacks: [{ name: "pwws", options: {} }],
      substitutions: await loadSubstitutions(table),
      constraints: constraintOptions.parse({}),
      seed: 0,
      out,
    });
    const { accuracyUnderAttack, successRate } = report.attacks.pwws!;
    console.log(
      `accuracy ${report.clean.toFixed(3)}, under attack ${accuracyUnderAttack.toFixed(3)}; fooled ${(100 * successRate).toFixed(0)} %`,
    );
    for await (const { result } of readJournal(`${out}/pwws.jsonl`)) {
      if (result.outcome !== "success") continue;
      console.log(`\n${joinWords(result.words)}\n${joinWords(result.final)}`);
      console.log(result.edits.map(({ from, to }) => `${from} -> ${to}`).join(", "));
    }
    return report;
  } finally {
    victim.close();
  }
}

if (process.argv[1] === import.meta.filename) {
  const [run = "runs/spam-standard-seed0", table = "wordnet", out = `${run}/attacks`] = process.argv.slice(2);
  await attackRun(run, table, out);
}
