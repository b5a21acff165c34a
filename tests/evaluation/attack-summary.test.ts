import { join } from "node:path";
import { parse } from "csv-parse/sync";
import { beforeAll, describe, expect, test } from "vitest";
import { createPoolAttacker, SearchPool } from "../../src/attacks/pool.js";
import { readTiming, runAttack } from "../../src/attacks/run-attack.js";
import { formatJournalCsv } from "../../src/evaluation/attack-csv.js";
import { type AttackSuiteSummary, summarize } from "../../src/evaluation/attack-summary.js";
import { runSanityChecks } from "../../src/evaluation/sanity-checks.js";
import { attack, collect, scriptedVictim, targetOfChoices } from "../attacks/scripted.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

// Five texts: one wrong from the start, one that falls to either attack, one to greedy only, two that hold.
const gold: Record<string, number> = { "wrong x": 0.2, "both y": 0.3, "later y": 0.4 };
const victim = scriptedVictim(2, (text) => {
  const p = gold[text] ?? 0.9;
  return [p, 1 - p];
});
const targets = ["wrong", "both", "later", "holds", "stays"].map((word, i) =>
  targetOfChoices(word, word === "stays" ? [[word], ["x"]] : [[word], ["x", "z", "y"]], 0, i),
);
const paths = { greedy: join(folder, "greedy.jsonl"), random: join(folder, "random.jsonl") };

async function run(name: "greedy" | "random", options: unknown, journal: string, list = targets): Promise<void> {
  const attacker = createPoolAttacker(new SearchPool(victim), await attack(name, options));
  await runAttack({
    attacker,
    attackExamples: list,
    numExamples: list.length,
    seed: 11,
    hashes: {},
    settings: {},
    journalPath: journal,
  });
}

let summary: AttackSuiteSummary;
beforeAll(async () => {
  await run("greedy", {}, paths.greedy);
  await run("random", { samples: 1 }, paths.random);
  summary = await summarize(paths, { greedy: await readTiming(paths.greedy) });
});

describe("the summary", () => {
  test("counts by both denominators", () => {
    expect(summary).toMatchObject({ examples: 5, clean: 0.8, majority: 1 });
    expect(summary.attacks.greedy).toMatchObject({
      accuracyUnderAttack: 0.4,
      successRate: 0.5,
      attacked: 4,
      wordsChanged: 0.5,
      limited: false,
    });
    // Per attacked example: the original, and two substitutes where there are any: 3, 3, 3, 1; the skipped one costs 1.
    expect(summary.attacks.greedy!.queries).toMatchObject({ mean: 2.5, median: 3, p95: 3, total: 11, forwarded: 11 });
    expect(summary.attacks.greedy!.interval.low).toBeLessThan(0.4);
  });

  test("takes the worst case over attacks for each example", () => {
    const { greedy, random } = summary.attacks;
    expect(summary.worstCase).toBe(0.4);
    expect(summary.worstCase).toBeLessThanOrEqual(Math.min(greedy!.accuracyUnderAttack, random!.accuracyUnderAttack));
  });

  test("states the attack space", () => {
    // Four texts with one open word of two substitutes, one with none.
    expect(summary.space).toEqual({
      words: 2,
      openWords: 0.8,
      substitutes: 2,
      log10Combinations: expect.closeTo(0.8 * Math.log10(3), 12),
      combinations: "3.0^1",
    });
  });

  test("refuses journals of different examples", async () => {
    const other = join(folder, "other.jsonl");
    await run("greedy", {}, other, targets.slice(1));
    await expect(summarize({ greedy: paths.greedy, other })).rejects.toThrow("its examples are not those of");
  });
});

describe("the CSV export", () => {
  test("has the columns of TextAttack's log, changed words marked", async () => {
    const rows = parse((await collect(formatJournalCsv(paths.greedy))).join(""), { columns: true }) as Record<
      string,
      string
    >[];
    expect(rows.map((row) => row.result_type)).toEqual(["Skipped", "Successful", "Successful", "Failed", "Failed"]);
    expect(rows[1]).toEqual({
      original_text: "both [[x]]",
      perturbed_text: "both [[y]]",
      original_score: "0.1",
      perturbed_score: "0.7",
      original_output: "0",
      perturbed_output: "1",
      ground_truth_output: "0",
      num_queries: "3",
      result_type: "Successful",
    });
  });

  test("quotes what needs it and joins fields and lines", async () => {
    const path = join(folder, "quotes.jsonl");
    const target = { ...targetOfChoices("1", [["a"], ["b", "c"]]), texts: ['say "a",\n', "b!"], fields: [0, 1] };
    await run("greedy", {}, path, [target]);
    const [row] = parse((await collect(formatJournalCsv(path))).join(""), { columns: true }) as Record<
      string,
      string
    >[];
    expect(row!.original_text).toBe('say "a",<SPLIT><SPLIT>b!');
  });
});

describe("sanity flags", () => {
  const names = (change: object, facts = {}) =>
    runSanityChecks({ ...summary, majority: 0.5, ...change }, facts).map((flag) => flag.name);
  const attacked = (accuracyUnderAttack: number, more = {}) => ({
    ...summary.attacks.greedy!,
    accuracyUnderAttack,
    ...more,
  });

  test("are silent where nothing is odd", () => {
    expect(names({})).toEqual([]);
    expect(
      names({}, { trainedEncoding: "word", tokenization: "word", dropoutOn: false, whiteBox: [], transfer: [] }),
    ).toEqual([]);
  });

  test("show each oddity", () => {
    expect(names({ majority: 0.9 })).toEqual(["label-map"]);
    expect(names({}, { dropoutOn: true })).toEqual(["dropout"]);
    expect(names({}, { trainedEncoding: "word", tokenization: "subword" })).toEqual(["encoding"]);
    expect(names({ space: { ...summary.space, words: 50, openWords: 2 } })).toEqual(["few-substitutes"]);
    const two = { examples: 1000, attacks: { pwws: attacked(0.2), ascc: attacked(0.5) } };
    expect(names(two, { whiteBox: ["ascc"] })).toEqual(["black-beats-white"]);
    expect(names(two, { whiteBox: ["pwws"] })).toEqual([]);
    expect(names(two, { transfer: ["pwws"] })).toEqual(["transfer-beats-adaptive"]);
    expect(names({ ...two, examples: 10 }, { whiteBox: ["ascc"] })).toEqual([]);
    expect(names({ attacks: { genetic: attacked(0.5, { limited: true, lateSuccesses: 30, attacked: 800 }) } })).toEqual(
      ["not-converged"],
    );
    expect(names({ attacks: { genetic: attacked(0.5, { limited: true, lateSuccesses: 3, attacked: 800 }) } })).toEqual(
      [],
    );
  });
});
