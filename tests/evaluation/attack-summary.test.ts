import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { SearchPool } from "../../src/attacks/pool.js";
import { runAttack } from "../../src/attacks/run-attack.js";
import {
  type AttackSuiteSummary,
  attackSuiteSummarySchema,
  computeOutcomes,
  type JournalSummary,
  summarizeAttacks,
  summarizeJournal,
} from "../../src/evaluation/attack-summary.js";
import { runSanityChecks } from "../../src/evaluation/sanity-checks.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { createExample, createTableAttack, scriptedVictim } from "../attacks/scripted.js";
import { attackResult, writeRun } from "../report/run-folder.js";
import { float64, matchClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

// Five texts: one is misclassified, one is fooled by both attacks, one by greedy only, two resist.
const gold: Record<string, number> = { "wrong x": 0.2, "both y": 0.3, "later y": 0.4 };
const victim = scriptedVictim(2, (text) => {
  const p = gold[text] ?? 0.9;
  return [p, 1 - p];
});
const examples = ["wrong", "both", "later", "robust", "fixed"].map((word) =>
  createExample(word, word === "fixed" ? [[word], ["w"]] : [[word], ["x", "z", "y"]]),
);
const paths = { greedy: join(folder, "greedy.jsonl"), random: join(folder, "random.jsonl") };

async function run(spec: string, journal: string, list = examples): Promise<void> {
  await runAttack({
    attack: await createTableAttack(spec, list),
    pool: new SearchPool(victim),
    examples: list,
    seed: 11,
    settings: {},
    journalPath: journal,
  });
}

/** Summarizes journals by attack name. */
async function readJournals(journals: Readonly<Record<string, string>>): Promise<Map<string, JournalSummary>> {
  const summaries = new Map<string, JournalSummary>();
  for (const [name, path] of Object.entries(journals)) summaries.set(name, await summarizeJournal(path));
  return summaries;
}

let summary: AttackSuiteSummary;
beforeAll(async () => {
  await run("greedy", paths.greedy);
  await run("random:samples=1", paths.random);
  summary = summarizeAttacks(await readJournals(paths));
});

describe("summarizeAttacks", () => {
  test("counts accuracy over all examples and success over the attacked ones", () => {
    expect(attackSuiteSummarySchema.parse(summary)).toEqual(summary);
    expect(summary).toMatchObject({ examples: 5, clean: 0.8, majority: 1 });
    expect(summary.attacks.greedy).toMatchObject({
      accuracyUnderAttack: 0.4,
      successRate: 0.5,
      attacked: 4,
      wordsChanged: 0.5,
      hasBudget: false,
    });
    // Each attacked example takes the original and its two substitutes, if any: 3, 3, 3, 1. The
    // skipped one takes 1.
    expect(summary.attacks.greedy!.queries).toMatchObject({ mean: 2.5, median: 3, p95: 3, total: 11, evaluated: 11 });
    expect(summary.attacks.greedy!.interval.low).toBeLessThan(0.4);
  });

  test("computes the worst case per example", () => {
    const { greedy, random } = summary.attacks;
    expect(summary.worstCase).toBe(0.4);
    expect(summary.worstCase).toBeLessThanOrEqual(Math.min(greedy!.accuracyUnderAttack, random!.accuracyUnderAttack));
  });

  test("describes the attack space", () => {
    // Four texts have one modifiable word with two substitutes; one text has none.
    expect(summary.space).toEqual({
      words: 2,
      modifiableWords: 0.8,
      substitutes: 2,
      log10Combinations: matchClose(0.8 * Math.log10(3), float64),
      combinations: "3.0^1",
    });
  });

  test("rejects journals with different examples", async () => {
    const other = join(folder, "other.jsonl");
    await run("greedy", other, examples.slice(1));
    const journals = await readJournals({ greedy: paths.greedy, other });
    expect(() => summarizeAttacks(journals)).toThrow("have different examples");
  });
});

describe("an attack that wants one class", () => {
  // Four texts of spam, of which one was misclassified and two were fooled; two of ham.
  const outcomes = ["skipped", "success", "success", "failed", "failed", "failed"] as const;
  const results = outcomes.map((outcome, i) => ({
    ...attackResult(`text ${i}`, "buy it now", outcome, {}, i < 4 ? 1 : 0),
    goal: "targeted-0",
    ...(i >= 4 && { isAttacked: false as const }),
  }));

  test("reports the recall of the attacked class over its texts", async () => {
    const run = await RunFolder.open(await writeRun(join(folder, "guard"), { attacks: { guard: results } }));
    const { journals } = await run.attacks();
    const { attacks, worstCase, worstCaseExamples, clean, examples: count } = summarizeAttacks(journals);
    expect(attacks.guard).toMatchObject({
      recall: { labels: [1], examples: 4, before: 0.75, underAttack: 0.25 },
      attacked: 3,
      successRate: 2 / 3,
    });
    expect([worstCase, worstCaseExamples]).toEqual([0.25, 4]);
    expect([clean, count]).toEqual([5 / 6, 6]);
    const outcome = computeOutcomes(journals);
    expect([...outcome.get("guard")!.keys()]).toEqual(["text 0", "text 1", "text 2", "text 3"]);
    expect([...outcome.get("clean")!.keys()]).toEqual([...outcome.get("guard")!.keys()]);
  });
});

describe("computeOutcomes", () => {
  test("gives the correctness of each example before, under each and under all attacks", async () => {
    const outcomes = computeOutcomes(await readJournals(paths));
    expect([...outcomes.keys()]).toEqual(["clean", "greedy", "random", "worst-case"]);
    expect([...outcomes.get("clean")!]).toEqual([
      ["wrong", false],
      ["both", true],
      ["later", true],
      ["robust", true],
      ["fixed", true],
    ]);
    expect([...outcomes.get("greedy")!.values()]).toEqual([false, false, false, true, true]);
    const [greedy, random] = [outcomes.get("greedy")!, outcomes.get("random")!];
    for (const [id, correct] of outcomes.get("worst-case")!) expect(correct).toBe(greedy.get(id) && random.get(id));
  });

  test("has no worst case for one attack, and combines only attacks on the same texts", async () => {
    const journals = await readJournals({ greedy: paths.greedy });
    expect([...computeOutcomes(journals).keys()]).toEqual(["clean", "greedy"]);
    const { results } = journals.get("greedy")!;
    const part = computeOutcomes(journals.set("part", { ...journals.get("greedy")!, results: results.slice(3) }));
    // An attack on fewer texts keeps its number, but is no part of a worst case.
    expect([...part.keys()]).toEqual(["clean", "greedy", "part"]);
    expect([part.get("clean")!.size, part.get("part")!.size]).toEqual([5, 2]);
    const both = computeOutcomes(journals.set("second", journals.get("greedy")!));
    expect([...both.get("worst-case")!.keys()]).toEqual([...both.get("clean")!.keys()]);
    expect(computeOutcomes(new Map())).toEqual(new Map());
  });
});

describe("runSanityChecks", () => {
  const names = (change: object, facts = {}) =>
    runSanityChecks({ ...summary, majority: 0.5, ...change }, facts).map((warning) => warning.name);
  const attacked = (accuracyUnderAttack: number, more = {}) => ({
    ...summary.attacks.greedy!,
    accuracyUnderAttack,
    ...more,
  });

  test("returns nothing for plausible numbers", () => {
    expect(names({})).toEqual([]);
    expect(names({}, { trainedTokenization: "word", tokenization: "word", dropoutOn: false })).toEqual([]);
  });

  test("warns of each problem", () => {
    expect(names({ clean: 0.7, majority: 0.9, examples: 100 })).toEqual(["label-map"]);
    // The same with few examples may be chance.
    expect(names({ clean: 0.7, majority: 0.9, examples: 10 })).toEqual([]);
    expect(names({}, { dropoutOn: true })).toEqual(["dropout"]);
    expect(names({}, { trainedTokenization: "word", tokenization: "subword" })).toEqual(["tokenization"]);
    expect(names({ space: { ...summary.space, words: 50, modifiableWords: 2 } })).toEqual(["few-substitutes"]);
    const checks = [{ name: "random", isPassed: false, message: "random changes are stronger" }];
    expect(names({ attacks: { pwws: attacked(0.2, { checks }), ascc: attacked(0.5) } })).toEqual(["check-random"]);
    expect(
      names({ attacks: { genetic: attacked(0.5, { hasBudget: true, lateSuccesses: 30, attacked: 800 }) } }),
    ).toEqual(["not-converged"]);
    expect(
      names({ attacks: { genetic: attacked(0.5, { hasBudget: true, lateSuccesses: 3, attacked: 800 }) } }),
    ).toEqual([]);
  });
});
