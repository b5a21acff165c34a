import { join } from "node:path";
import { readJournal } from "../attacks/journal.js";
import { UserError } from "../errors.js";
import type { ExampleOutcomes, ModelOutcomes } from "../evaluation/compare.js";
import { findJournals, listFolder } from "./find-journals.js";
import { type EvaluationResult, readResults } from "./results.js";

/** Reads one side of a comparison: a run, a folder of journals, or a folder of several of either, one a seed. */
export async function readModelOutcomes(folder: string): Promise<ModelOutcomes> {
  const own = await readFolderOutcomes(folder);
  const inside = own.measures.size > 0 ? [] : (await listFolder(folder)).filter((entry) => entry.isDirectory());
  const measured = own.measures.size > 0 ? [own] : [];
  for (const { name } of inside) {
    const found = await readFolderOutcomes(join(folder, name));
    if (found.measures.size > 0) measured.push(found);
  }
  const seeds = measured.map(({ measures }) => measures);
  const numbers = measured.flatMap(({ seed }) => seed ?? []);
  const twice = numbers.find((number, i) => numbers.indexOf(number) !== i);
  if (twice !== undefined)
    throw new UserError(
      `${folder}: several of its runs have seed ${twice}; expected runs that differ in their seed alone`,
    );
  // Journals alone do not say which seed trained their model.
  if (seeds.length > 0)
    return { name: folder, outcomesPerSeed: seeds, ...(numbers.length === seeds.length && { seeds: numbers }) };
  throw new UserError(
    `${folder}: expected a finished run, a folder of attack journals (NAME.jsonl), or a folder of several of them; found none`,
  );
}

/** What was measured in one folder: "clean" from a run's report, or from the journals; every attack; the worst case over them. */
async function readFolderOutcomes(
  folder: string,
): Promise<{ measures: Map<string, ExampleOutcomes>; seed: number | null }> {
  const measures = new Map<string, ExampleOutcomes>();
  const results = await readResults(folder);
  const reported = results && parseOutcomes(results.test);
  if (reported) measures.set("clean", reported);
  const attacks = [...(await findJournals(folder)), ...(await findJournals(join(folder, "attacks")))];
  for (const { attack, path } of attacks) {
    const [clean, held] = await readJournalOutcomes(path);
    if (!measures.has("clean")) measures.set("clean", clean);
    measures.set(attack, held);
  }
  if (attacks.length > 1)
    measures.set("worst case", computeWorstCase(attacks.map(({ attack }) => measures.get(attack)!)));
  return { measures, seed: results?.seed ?? null };
}

/** What a run's report says text by text; null in results of older versions. */
export function parseOutcomes({ outcomes }: EvaluationResult): ExampleOutcomes | null {
  return outcomes
    ? new Map([...outcomes.correct].map((value, i) => [`${outcomes.examples}:${i}`, value === "1"]))
    : null;
}

async function readJournalOutcomes(journal: string): Promise<[ExampleOutcomes, ExampleOutcomes]> {
  const [clean, held] = [new Map<string, boolean>(), new Map<string, boolean>()];
  let expected = 0;
  for await (const { header, result } of readJournal(journal)) {
    expected = header.examples;
    clean.set(result.id, result.outcome !== "skipped");
    held.set(result.id, result.outcome === "failed");
  }
  if (clean.size < expected)
    throw new UserError(
      `${journal}: ${clean.size} of ${expected} examples are done; finish it with temper attack … --resume`,
    );
  return [clean, held];
}

/** An example holds only where it holds under every attack. */
function computeWorstCase(attacks: readonly ExampleOutcomes[]): ExampleOutcomes {
  const ids = [...attacks[0]!.keys()].filter((id) => attacks.every((held) => held.has(id)));
  return new Map(ids.map((id) => [id, attacks.every((held) => held.get(id))]));
}
