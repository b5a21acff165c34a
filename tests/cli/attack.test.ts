import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { AttackReport } from "../../src/actions/attack/attack.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { getMemoryStats } from "../../src/tensor/index.js";
import { isOnnxSuite, type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { writeAttack } from "../attacks/write-attack.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
let victim: TinyVictim;
let word: TinyVictim;
let out = "";
let count = 0;

beforeAll(async () => {
  victim = await tinyVictim(join(folder, "subword"));
  word = await tinyVictim(join(folder, "word"), { tokenization: "word", seed: 1 });
});
beforeEach(() => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  out = join(folder, `out-${count++}`);
});
afterEach(() => vi.unstubAllEnvs());

const genetic = "genetic:population=6,iterations=4";
const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
const own = (made: TinyVictim): string[] => ["--data", made.data, ...columns];

/** Flags are separated by spaces. */
async function attack(made: TinyVictim, ...more: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const flags = more.flatMap((words) => words.split(" "));
  return invoke(["attack", made.run, ...own(made), "--out", out, ...cpu, ...flags]);
}

async function report(made: TinyVictim, ...more: string[]): Promise<AttackReport> {
  const { code, stdout, stderr } = await attack(made, "--json", ...more);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as AttackReport;
}

describe("temper attack", () => {
  test("writes one journal per attack and a report with the worst case over all attacks", async () => {
    const countTensors = (): number => (isOnnxSuite ? 0 : getMemoryStats().tensors);
    const before = countTensors();
    const found = await report(victim, `--attack pwws --attack ${genetic} --attack random --num-examples 40`);
    expect(countTensors()).toBe(before);
    expect(found).toMatchObject({ examples: 40, sanity: expect.any(Array) });
    expect(Object.keys(found.attacks)).toEqual(["pwws", "genetic", "random"]);
    for (const summary of Object.values(found.attacks)) {
      expect(summary).toMatchObject({
        queries: { mean: expect.any(Number), median: expect.any(Number), p95: expect.any(Number) },
      });
      expect(summary.accuracyUnderAttack).toBeLessThanOrEqual(found.clean);
      expect(found.worstCase).toBeLessThanOrEqual(summary.accuracyUnderAttack);
      expect(summary.queries.evaluated).toBeLessThanOrEqual(summary.queries.total + 2 * 40);
      expect(summary.seconds).toBeGreaterThan(0);
    }
    expect(found.clean).toBeGreaterThan(0.8);
    expect(found.attacks.pwws!.accuracyUnderAttack).toBeLessThan(0.8 * found.clean);
    expect(JSON.parse(readFileSync(join(out, "report.json"), "utf8"))).toMatchObject(found);
    expect(readdirSync(out).sort()).toEqual(
      [
        ...["pwws", "genetic", "random"].flatMap((name) => [".jsonl", ".timing.json"].map((end) => name + end)),
        "report.json",
      ].sort(),
    );
  });

  test("prints a table, and prints the same table again with --resume", async () => {
    const first = await attack(victim, "--attack", "pwws", "--attack", "greedy", "--num-examples", "30");
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(/accuracy under attack +[\d.]+% of 30/);
    expect(first.stdout).toMatch(/success rate +[\d.]+% of \d+/);
    expect(first.stdout).toMatch(/^accuracy under all attacks +[\d.]+% of 30 {2}\(95% CI/m);
    expect(first.stdout).toMatch(/of [\d.]+ words are modifiable, [\d.]+ substitutes each: [\d.]+\^\d+ texts/);
    const journal = readFileSync(join(out, "pwws.jsonl"));
    const again = await attack(victim, "--attack", "pwws", "--attack", "greedy", "--num-examples", "30", "--resume");
    expect(again.stdout).toBe(first.stdout);
    expect(readFileSync(join(out, "pwws.jsonl")).equals(journal)).toBe(true);
    const third = await attack(victim, "--attack", "pwws", "--num-examples", "30");
    expect(third).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("pwws.jsonl already exists. Pass --resume to continue or extend it"),
    });
  });

  test("--attacked-label attacks one class and reports its recall", async () => {
    const flags = ["--attack", "pwws", "--num-examples", "12"];
    const { code, stdout } = await attack(victim, ...flags, "--attacked-label", "negative");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^recall of negative before the attack +\d/m);
    expect(stdout).toMatch(/recall of negative under attack +[\d.]+% of 12/);
    const found = JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as AttackReport;
    const [negative, positive] = found.confusionMatrix as [number[], number[]];
    expect(positive).toEqual([0, 0]);
    expect(found.clean).toBe(negative[0]! / 12);
    // One class alone is always the most common one, so that says nothing about the order of the labels.
    expect(found.sanity.map(({ name }) => name)).not.toContain("label-map");
    const other = await attack(victim, ...flags, "--resume");
    expect(other.stderr).toMatch(/pwws\.jsonl was written with a different /);
    const unknown = await attack(victim, ...flags, "--attacked-label", "bad");
    expect(unknown).toMatchObject({ code: 2, stdout: "" });
    expect(unknown.stderr).toMatch(/--attacked-label: expected a label of \w+ \(negative, positive\), received bad/);
  });

  test("reports all attacks of the folder, including those of earlier commands", async () => {
    await report(victim, "--attack", "pwws", "--num-examples", "30");
    const both = await report(victim, "--attack", "greedy", "--num-examples", "30", "--resume");
    expect(Object.keys(both.attacks)).toEqual(["greedy", "pwws"]);
    expect(both.worstCase).toBeLessThanOrEqual(
      Math.min(...Object.values(both.attacks).map((found) => found.accuracyUnderAttack)),
    );
    expect(Object.keys((JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as AttackReport).attacks)).toEqual([
      "greedy",
      "pwws",
    ]);
    // Journals of another attack space are not included.
    const narrow = await report(victim, "--attack random --num-examples 30 --resume --protect-stop-words");
    expect(Object.keys(narrow.attacks)).toEqual(["random"]);
  });

  test("a custom search that fails is reported with its example and leaves no journal", async () => {
    const mine = writeAttack(join(folder, "failing.mjs"), 'throw new Error("boom");');
    const { code, stderr } = await attack(victim, "--attack", mine, "--num-examples", "10");
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^temper: attack failing: the search failed on example \S+: boom\n$/) as string,
    });
    expect(readdirSync(out).filter((name) => name.endsWith(".jsonl"))).toEqual([]);
  });

  test("uses the data and substitutions of the run by default, and writes into the run folder", async () => {
    const { code, stderr } = await invoke(["attack", victim.run, "--attack", "greedy", ...cpu]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(existsSync(join(victim.run, "attacks", "greedy.jsonl"))).toBe(true);
  });

  test("reuses scores on disk unless --no-cache is passed", async () => {
    const flags = ["--attack", "greedy", "--num-examples", "20", "--seed", "3"];
    const first = await report(victim, ...flags);
    rmSync(out, { recursive: true });
    const second = await report(victim, ...flags);
    rmSync(out, { recursive: true });
    const fresh = await report(victim, ...flags, "--no-cache");
    const evaluated = [first, second, fresh].map(({ attacks }) => attacks.greedy!.queries.evaluated);
    expect(evaluated[1]).toBe(0);
    expect(evaluated[2]).toBeGreaterThan(0);
    const plain = ({ attacks, request: _, ...rest }: AttackReport) => ({
      ...rest,
      accuracy: attacks.greedy!.accuracyUnderAttack,
    });
    expect(plain(second)).toEqual(plain(first));
    expect(plain(fresh)).toEqual(plain(first));
  });

  test("respects constraints and the query budget", async () => {
    const constraints = "--query-budget 4 --max-modification-rate 0.2 --protect-stop-words";
    const found = await report(victim, "--attack pwws --num-examples 20", constraints);
    expect(found.attacks.pwws!.queries.p95).toBeLessThanOrEqual(4);
    const lines = readFileSync(join(out, "pwws.jsonl"), "utf8").trim().split("\n").slice(1);
    for (const line of lines) {
      const { edits, words } = JSON.parse(line) as { edits: { from: string }[]; words: string[] };
      expect(edits.length).toBeLessThanOrEqual(Math.ceil(0.2 * words.length));
      for (const { from } of edits) expect(["the", "was"]).not.toContain(from);
    }
  });

  test.skipIf(isOnnxSuite)("runs the white-box attack ascc, and transfers texts of another model", async () => {
    const found = await report(word, "--attack", "ascc", "--attack", "pwws", "--num-examples", "16");
    expect(found.attacks.ascc!.accuracyUnderAttack).toBeLessThan(found.clean);
    // Its texts are created after the last step, so late successes do not mean that it needs more steps.
    expect(found.sanity.map(({ name }) => name)).not.toContain("not-converged");
    const journal = join(out, "pwws.jsonl");
    out = join(folder, `out-${count++}`);
    const moved = await report(victim, "--attack", "pwws", "--transfer-from", journal, "--num-examples", "16");
    expect(Object.keys(moved.attacks)).toEqual(["pwws", "transfer-pwws"]);
    expect(moved.attacks["transfer-pwws"]!.queries.p95).toBeLessThanOrEqual(2);
    // Examples that were not attacked must not count as robust.
    out = join(folder, `out-${count++}`);
    const more = await attack(victim, "--attack", "pwws", "--transfer-from", journal, "--num-examples", "30");
    expect(more).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/covers only \d+ of 30 examples\. Attack both models with the same/),
    });
  });

  test("a language-model constraint limits the examples to the texts that it covers", async () => {
    const lines = readFileSync(victim.data, "utf8").trim().split("\n").slice(1);
    const texts = [...new Set(lines.map((line) => line.split("\t")[0]!))];
    const swaps = join(folder, "swaps.json");
    // Every second text is covered, and "plot" is the only substitute there.
    const covered = texts.filter((_, i) => i % 2 === 0);
    const allowed = (text: string) => Object.fromEntries(text.split(" ").map((_, i) => [i, ["plot"]]));
    writeFileSync(swaps, JSON.stringify(Object.fromEntries(covered.map((text) => [text, allowed(text)]))));
    const flags = ["--attack", genetic, "--attack", "greedy", "--lm-constraint", swaps, "--num-examples"];
    const { code, stdout, stderr } = await attack(victim, ...flags, "10");
    expect([code, stderr]).toEqual([0, expect.anything()]);
    expect(stdout).toMatch(/The language-model constraint covers \d+ of \d+ texts\. Only these can be attacked\./);
    const report = JSON.parse(readFileSync(join(out, "report.json"), "utf8")) as {
      coverage: { covered: number; total: number };
    };
    expect(report.coverage.covered).toBeLessThan(report.coverage.total);
    const read = (name: string): unknown[] =>
      readFileSync(join(out, `${name}.jsonl`), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown);
    const [header, ...results] = read("genetic") as [unknown, ...{ texts: string[]; edits: { to: string }[] }[]];
    expect(header).toMatchObject({ hashes: { languageModel: expect.any(String) } });
    expect(read("greedy")[0]).not.toMatchObject({ hashes: { languageModel: expect.any(String) } });
    expect(results).toHaveLength(10);
    for (const { texts: read, edits } of results) {
      expect(covered).toContain(read[0]);
      for (const { to } of edits) expect(to).toBe("plot");
    }
    const { covered: count, total } = report.coverage;
    const more = await attack(victim, ...flags, String(count + 1), "--out", join(folder, "more"));
    expect(more.code).toBe(2);
    expect(more.stderr).toContain(`the file covers ${count} of the ${total} texts of`);
    expect(more.stderr).toContain(`Pass --num-examples ${count} or fewer`);
    expect(existsSync(join(folder, "more"))).toBe(false);
  });

  test("a tokenization other than the one in training is reported, or rejected if it is known", async () => {
    const foreign = join(folder, "foreign");
    cpSync(join(victim.run, "model"), foreign, { recursive: true });
    const { temper: _, ...config } = JSON.parse(readFileSync(join(foreign, "config.json"), "utf8")) as Record<
      string,
      unknown
    >;
    writeFileSync(join(foreign, "config.json"), JSON.stringify(config));
    const flags = `--substitutions ${victim.substitutions} --attack greedy --num-examples 10`;
    const { code, stdout } = await attack({ ...victim, run: foreign }, flags, "--tokenization word --max-length 10");
    expect(code).toBe(0);
    expect(stdout).toContain("The model was trained with subword tokenization, but attacked with word tokenization.");
    expect(await invoke(["verify", join(out, "greedy.jsonl"), "--model", foreign, ...cpu])).toMatchObject({ code: 0 });
    const wrong = await attack(victim, "--tokenization", "word");
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("was trained with subword, received word. Leave the option out."),
    });
  });

  test("--in-vocab-substitutes drops substitutes that are not in the vocabulary", async () => {
    const table = join(folder, "with-unknown.json");
    const known = JSON.parse(readFileSync(word.substitutions, "utf8")) as Record<string, string[]>;
    writeFileSync(
      table,
      JSON.stringify(Object.fromEntries(Object.entries(known).map(([key, list]) => [key, ["xylophone", ...list]]))),
    );
    const finals = async (...flags: string[]): Promise<(readonly string[])[]> => {
      const where = join(folder, `out-${count++}`);
      const journal = join(where, "greedy.jsonl");
      const common = ["--attack", "greedy", "--num-examples", "20", "--out", where];
      expect(await attack(word, ...common, ...flags)).toMatchObject({ code: 0 });
      const table = flags.filter((flag) => flag !== "--in-vocab-substitutes");
      const verified = await invoke(["verify", journal, "--model", word.run, ...table, ...cpu]);
      expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining("every substitute is in") });
      expect(verified.stdout.includes("vocabulary")).toBe(flags.includes("--in-vocab-substitutes"));
      return readFileSync(journal, "utf8")
        .trimEnd()
        .split("\n")
        .slice(1)
        .map((line) => (JSON.parse(line) as AttackResult).finalWords);
    };
    const filtered = await finals("--substitutions", table, "--in-vocab-substitutes");
    expect(filtered).toEqual(await finals("--substitutions", word.substitutions));
    expect((await finals("--substitutions", table)).flat()).toContain("xylophone");
    const refused = await attack(victim, "--in-vocab-substitutes");
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("A model with subword tokenization knows every word."),
    });
  });

  test("prints sanity warnings", async () => {
    const labels = join(folder, "swapped.tsv");
    const text = readFileSync(victim.data, "utf8").replace(/positive|negative/g, (label) =>
      label === "positive" ? "negative" : "positive",
    );
    writeFileSync(labels, text);
    const { code, stdout } = await attack({ ...victim, data: labels }, "--attack greedy");
    expect(code).toBe(0);
    expect(stdout).toContain("Check the order of the labels.");
  });
});
