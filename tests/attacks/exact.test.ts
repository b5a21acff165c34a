import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { computeParts, countOpenTexts, type PartedProof, readParts } from "../../src/actions/exact/exact-parts.js";
import { EditedText } from "../../src/attacks/edited-text.js";
import type { AbleVictim } from "../../src/attacks/victim.js";
import { Rng } from "../../src/base/rng.js";
import { confirmAnswers } from "../../src/models/inference/confirm-answers.js";
import { countCombinations, enumerateCombinations } from "../../src/proofs/exact/combinations.js";
import type { ProofLine, ResultLine, SubstitutionList } from "../../src/proofs/exact/proof-lines.js";
import { proveText } from "../../src/proofs/exact/prove-text.js";
import { measureDecidedMargin } from "../../src/proofs/exact/score-candidates.js";
import type { WordSubstitutes } from "../../src/proofs/exact/substitution-space.js";
import { reduceSpace } from "../../src/proofs/exact/substitution-space.js";
import { summarizeResults } from "../../src/proofs/exact/summarize-proof.js";
import { temporaryFolder } from "../temporary.js";
import { hashed, scriptedVictim } from "./scripted.js";

describe("combinations", () => {
  test("are counted by elementary symmetric polynomials", () => {
    expect([0, 1, 2, 3, 4].map((changes) => countCombinations([2, 3, 5], changes))).toEqual([1, 10, 31, 30, 0]);
  });

  test("are all listed once, with different words, and the last substitution never gets better", () => {
    const positions = [4, 0, 4, 2, 0, 1];
    for (const changes of [1, 2, 3, 4]) {
      const all = [...enumerateCombinations(positions, changes)];
      expect(new Set(all.map(String)).size).toBe(all.length);
      expect(all.every((each) => new Set(each.map((i) => positions[i])).size === changes)).toBe(true);
      expect(all).toHaveLength(countCombinations([2, 2, 1, 1], changes));
      const lasts = all.map((each) => each.at(-1)!);
      expect(lasts).toEqual(lasts.toSorted((a, b) => a - b));
    }
  });
});

const words = ["zero", "one", "two", "three", "four", "five"];
const text = words.join(" ");

function createSpace(sizes: readonly number[]): WordSubstitutes[] {
  return sizes.flatMap((size, position) => {
    const start = text.indexOf(words[position]!);
    const substitutes = Array.from({ length: size }, (_, i) => `${words[position]!}${i}`);
    const place = { position, field: 0, start, end: start + words[position]!.length };
    return size > 0 ? [{ ...place, substitutes }] : [];
  });
}

async function prove(
  answer: (text: string) => readonly number[],
  space: readonly WordSubstitutes[],
  options: { maxChanges: number; budget?: number; attack?: SubstitutionList | null; known?: readonly ProofLine[] },
  victim: AbleVictim & { calls: string[][] } = scriptedVictim(2, answer, 64),
): Promise<{ result: ResultLine; lines: ProofLine[]; scored: number; calls: number }> {
  const { maxChanges, budget = Number.POSITIVE_INFINITY, attack = null, known = [] } = options;
  const example = { id: "a", label: 0, texts: [text] };
  const problem = { index: 0, example, original: EditedText.create([text], victim.findWords), words: space, attack };
  const lines: ProofLine[] = [];
  let scored = 0;
  const onCall = (count: number): void => {
    scored += count;
  };
  for await (const line of proveText(victim, problem, { maxChanges, budget, onCall }, known)) lines.push(line);
  return { result: lines.at(-1) as ResultLine, lines, scored, calls: victim.calls.flat().length };
}

const sizes = [3, 4, 2, 0, 3, 4];

describe("a proof", () => {
  test("finds a planted needle of three substitutions in 100 of 100 cases, and claims none where none is", async () => {
    const rng = new Rng("needle");
    const sizes = [2, 1, 2, 0, 2, 2];
    const space = createSpace(sizes);
    for (let i = 0; i < 100; i++) {
      const positions = rng
        .shuffle([...space.keys()])
        .slice(0, 3)
        .sort((a, b) => a - b);
      const needle = positions.map((at): [number, string] => {
        const { position, substitutes } = space[at]!;
        return [position, substitutes[rng.integer(substitutes.length)]!];
      });
      const fooled = words.map((word, at) => needle.find(([position]) => position === at)?.[1] ?? word).join(" ");
      const random = hashed(2, `${i}`);
      const answer = (each: string): number[] => {
        const [noise] = random(each) as [number];
        return each === fooled ? [0.4, 0.6] : [0.6 + 0.3 * noise, 0.4 - 0.3 * noise];
      };
      const { result } = await prove(answer, space, { maxChanges: 3 });
      expect(result).toMatchObject({ minChanges: 3, provenUpTo: 2, edits: needle });
      const without = (each: string): number[] => (each === fooled ? [0.51, 0.49] : answer(each));
      expect((await prove(without, space, { maxChanges: 3 })).result).toMatchObject({
        ...{ minChanges: null, provenUpTo: 3, edits: null },
        scored: [1, 2, 3].reduce((sum, changes) => sum + countCombinations(sizes, changes), 0),
      });
    }
  });

  test("equals brute force over all combinations", async () => {
    const space = createSpace([2, 2, 1, 0, 2, 1]);
    for (let seed = 0; seed < 20; seed++) {
      const answer = (each: string): number[] => {
        const [noise] = hashed(2, `brute ${seed}`)(each) as [number];
        return noise > 0.06 ? [0.9, 0.1] : [0.1, 0.9];
      };
      let best = Number.POSITIVE_INFINITY;
      const visit = (at: number, current: string[], changed: number): void => {
        if (at === words.length) {
          if (answer(current.join(" "))[0]! < 0.5) best = Math.min(best, changed);
          return;
        }
        visit(at + 1, [...current, words[at]!], changed);
        for (const word of space.find(({ position }) => position === at)?.substitutes ?? [])
          visit(at + 1, [...current, word], changed + 1);
      };
      visit(0, [], 0);
      const { result } = await prove(answer, space, { maxChanges: 3 });
      const expected = best <= 3 ? { minChanges: best, provenUpTo: best - 1 } : { minChanges: null, provenUpTo: 3 };
      expect(result).toMatchObject(expected);
    }
  });

  test("in low precision is that of float32, because the margin of confirmations is measured", async () => {
    const space = createSpace([2, 2, 1, 0, 2, 1]);
    const toProbabilities = (margin: number): number[] => [1 / (1 + Math.exp(-margin)), 1 / (1 + Math.exp(margin))];
    const wrong = new Map([0.1, null].map((margin) => [margin, 0]));
    for (let seed = 0; seed < 30; seed++) {
      const getNoise = (name: string, each: string): number => hashed(2, `${name} ${seed}`)(each)[0]! - 0.5;
      const getMargin = (each: string): number => (each === text ? 2 : 1.45 + 3 * getNoise("margin", each));
      const low = scriptedVictim(2, (each) => toProbabilities(getMargin(each) + getNoise("error", each)), 64);
      const answer = (each: string): number[] => toProbabilities(getMargin(each));
      const victim = confirmAnswers(low, scriptedVictim(2, answer, 64), Number.POSITIVE_INFINITY);
      const original = EditedText.create([text], victim.findWords);
      const measured = await measureDecidedMargin(victim, [{ original, words: space, label: 0 }], 3);
      expect(measured).toBe(Number(measured.toPrecision(2)));
      const { result } = await prove(answer, space, { maxChanges: 3 });
      for (const margin of wrong.keys()) {
        const used = { ...victim, ...victim.changeMargin(margin ?? measured) };
        const found = await prove(answer, space, { maxChanges: 3 }, used);
        if (found.result.minChanges !== result.minChanges) wrong.set(margin, wrong.get(margin)! + 1);
      }
    }
    expect(wrong.get(0.1)).toBeGreaterThan(0);
    expect(wrong.get(null)).toBe(0);
  });

  test("skips the levels from the attack's success on", async () => {
    const attack: SubstitutionList = [
      [0, "zero1"],
      [1, "one0"],
    ];
    const answer = (each: string): number[] => (each.startsWith("zero1 one0") ? [0.1, 0.9] : [0.9, 0.1]);
    const { result, scored } = await prove(answer, createSpace(sizes), { maxChanges: 3, attack });
    expect(result).toMatchObject({ minChanges: 2, provenUpTo: 1, edits: attack });
    expect(scored).toBe(16);
  });

  test("says how far it is proven if the budget ends", async () => {
    const answer = (): number[] => [0.9, 0.1];
    const { result, scored } = await prove(answer, createSpace(sizes), { maxChanges: 3, budget: 50 });
    expect(result).toMatchObject({ minChanges: null, provenUpTo: 1, edits: null, scored: 50 });
    expect(scored).toBe(50);
  });

  test("is the same after a stop at any line, and known lines are not scored again", async () => {
    const answer = (each: string): number[] => {
      const [noise] = hashed(2, "resume")(each) as [number];
      return [0.6 + 0.3 * noise, 0.4 - 0.3 * noise];
    };
    const space = createSpace(sizes);
    const { lines, scored } = await prove(answer, space, { maxChanges: 3 });
    expect(lines.map(({ kind }) => kind)).toEqual(["text", "block", "order", "block", "block", "result"]);
    for (let stop = 0; stop <= lines.length; stop++) {
      const resumed = await prove(answer, space, { maxChanges: 3, known: lines.slice(0, stop) });
      expect(resumed.lines).toEqual(lines);
      if (stop > 1) expect(resumed.scored).toBeLessThan(scored);
    }
  });
});

describe("a proof in parts", () => {
  const answer = (each: string): number[] => {
    const [noise] = hashed(2, "parts")(each) as [number];
    return [0.52 + 0.3 * noise, 0.48 - 0.3 * noise];
  };
  const space = createSpace(sizes);
  const examples = Array.from({ length: 5 }, (_, i) => ({ id: `${i}`, label: i % 2, texts: [text] }));

  function createProof(folder: string): PartedProof & { calls: string[][] } {
    const victim = scriptedVictim(2, answer, 64);
    const problems = examples.map((example, index) => {
      return {
        index,
        example,
        original: EditedText.create(example.texts, victim.findWords),
        words: space,
        attack: null,
      };
    });
    const options = { maxChanges: 3, budget: Number.POSITIVE_INFINITY, onCall: () => undefined };
    return { victim, problems, options, folder, calls: victim.calls };
  }

  async function finish(proof: PartedProof, known: readonly (readonly ProofLine[])[]): Promise<ProofLine[][]> {
    const all: ProofLine[][] = [];
    for (const problem of proof.problems) {
      const lines: ProofLine[] = [];
      for await (const line of proveText(proof.victim, problem, proof.options, known[problem.index])) lines.push(line);
      all.push(lines);
    }
    return all;
  }

  test("has the lines of one process, with several processes, and after parts are lost", async () => {
    const expected = await finish(createProof("none"), []);
    const folder = join(temporaryFolder(), "parts");
    const [first, second] = [createProof(folder), createProof(folder)];
    await Promise.all([computeParts(first), computeParts(second)]);
    expect(first.calls.length).toBeGreaterThan(0);
    expect(second.calls.length).toBeGreaterThan(0);
    expect(await countOpenTexts(first)).toBe(0);
    const merged = createProof(folder);
    expect(await finish(merged, await readParts(merged))).toEqual(expected);
    // Everything was in the parts.
    expect(merged.calls).toEqual([]);
    const rng = new Rng("lost");
    for (let i = 0; i < 4; i++) {
      for (const name of readdirSync(folder)) if (rng.next() < 0.5) rmSync(join(folder, name));
      expect(await countOpenTexts(merged)).toBeGreaterThan(0);
      expect(await finish(createProof(folder), await readParts(merged))).toEqual(expected);
      await computeParts(createProof(folder));
      expect(await finish(createProof(folder), await readParts(merged))).toEqual(expected);
    }
  });
});

describe("the reduction of the space", () => {
  /** One token per character class, so that words with equal lengths collapse. */
  const read = (inputs: readonly (readonly string[])[]): Int32Array[] =>
    inputs.map(([first]) => Int32Array.from(first!.split(" "), (word) => word.length));
  const list = (input: string, table: Record<string, string[]>) => {
    const original = EditedText.create([input]);
    return original.words.flatMap((word, position) =>
      (table[word] ?? []).map((each) => original.apply({ kind: "replace", position, word: each })),
    );
  };

  test("collapses substitutes with equal tokens and drops those that equal the original", () => {
    const candidates = list("a bb ccc", { bb: ["xx", "y", "z", "four"], ccc: ["ddd"] });
    const reduced = reduceSpace(candidates[0]!.original, candidates, 2, { read, maxLength: 10 });
    expect(reduced).toEqual([{ position: 1, field: 0, start: 2, end: 4, substitutes: ["y", "four"] }]);
  });

  test("drops words behind the truncation, unless substitutes before them are shorter", () => {
    const candidates = list("a bb ccc dddd", { a: ["ee"], dddd: ["f"] });
    const { original } = candidates[0]!;
    expect(reduceSpace(original, candidates, 2, { read, maxLength: 2 }).map(({ position }) => position)).toEqual([0]);
    expect(reduceSpace(original, candidates, 2, { read, maxLength: 4 })).toHaveLength(2);
  });
});

test("robust accuracy is between what is proven and what is not broken, and every text is counted once", () => {
  const results = [
    { provenUpTo: -1, minChanges: 0 }, // misclassified
    { provenUpTo: 0, minChanges: 1 }, // fooled by one
    { provenUpTo: 2, minChanges: null }, // proven
    { provenUpTo: 1, minChanges: null }, // open at two
    { provenUpTo: 0, minChanges: 2 }, // one is open, two fool it
  ];
  const { exact, bracket, distribution } = summarizeResults(results, 2);
  expect(bracket.map(({ proven, unbroken }) => [proven, unbroken])).toEqual([
    [4 / 5, 4 / 5],
    [2 / 5, 3 / 5],
    [1 / 5, 2 / 5],
  ]);
  expect(exact.map(({ accuracy, open }) => [accuracy, open])).toEqual([
    [4 / 5, 0],
    [2 / 5, 1],
    [1 / 5, 1],
  ]);
  expect(distribution).toEqual({ exact: [1, 1, 0], robust: 1, open: 2 });
});
