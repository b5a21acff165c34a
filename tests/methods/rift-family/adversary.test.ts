import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { computeWinRate, measureAdversaryStrength } from "../../../src/analysis/adversary.js";
import { createAsccAttacker } from "../../../src/attacks/ascc-attack.js";
import { findWorstCaseSubstitutions, hullSchema, withReplacements } from "../../../src/attacks/ascc-search.js";
import { type AttackExample, createAttackExample } from "../../../src/attacks/attack-space.js";
import { constraintsSchema } from "../../../src/attacks/constraints.js";
import { modifiableWords } from "../../../src/attacks/open-words.js";
import type { AttackResult } from "../../../src/attacks/result.js";
import { runAttack } from "../../../src/attacks/run-attack.js";
import type { Model } from "../../../src/models/model.js";
import { free, getMemoryStats, Rng } from "../../../src/tensor/index.js";
import { buildAttackSpace } from "../../../src/text/replacements.js";
import { predictProbabilities, train } from "../../../src/train/index.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyDataset, tinyJob, tinyModel } from "../tiny.js";

const folder = temporaryFolder();
/** Ten words each: in a hull of one word, chance does as well as any search. */
const dataset = tinyDataset(
  Array.from({ length: 24 }, (_, i) => {
    const rng = new Rng("adversary").fork(i);
    return { ids: [2, ...Array.from({ length: 10 }, () => 4 + rng.integer(12)), 3], label: i % 3 };
  }),
);
const { items } = dataset;
let model: Model;
let targets: AttackExample[];

beforeAll(async () => {
  model = tinyModel();
  // Trained a little: the divergence of a model that is sure of everything is at its ceiling wherever one looks.
  const job = tinyJob(model, [], { train: dataset }, { epochs: 8, dropout: false, learningRate: 3e-3 });
  await train(job);
  const substitutions = await job.loadSubstitutions!();
  const encode = (given: readonly string[]) => model.tokenizer.encodeWords(given, model.maxLength);
  const options = { modifiableFields: [0], substitutions, constraints: constraintsSchema.parse({}), encode };
  targets = items.map(({ example }) => createAttackExample(example, options));
});
afterAll(() => free(model.weights));

const victim = () => ({
  model,
  weights: model.weights,
  device: "cpu" as const,
  hashes: { model: "m", tokenizer: "t" },
});

async function attack(
  name: string,
  options: object = {},
  rest: { resume?: boolean; count?: number; budget?: number } = {},
): Promise<AttackResult[]> {
  const journal = join(folder, `${name}.jsonl`);
  const results: AttackResult[] = [];
  await runAttack({
    attacker: createAsccAttacker(victim(), options),
    attackExamples: targets.slice(0, rest.count ?? targets.length),
    numExamples: targets.length,
    seed: 3,
    hashes: {},
    settings: {},
    journalPath: journal,
    resume: rest.resume ?? false,
    ...(rest.budget !== undefined && { budget: rest.budget }),
    onResult: (result) => void results.push(result),
  });
  return results;
}

describe("the ascc attack on a finished model", () => {
  it("gives texts of the attack space that the model, read anew, is wrong on where it says so", async () => {
    const results = await attack("whole");
    expect(results.map((result) => result.id)).toEqual(targets.map((target) => target.id));
    const outcomes = results.map((result) => result.outcome);
    expect(outcomes).toContain("success");
    const encoded = results.map((result) => model.tokenizer.encodeWords([result.final.join(" ")], model.maxLength));
    const probabilities = await predictProbabilities(model, model.weights, encoded);
    for (const [i, result] of results.entries()) {
      for (const [j, word] of result.final.entries()) expect(targets[i]!.replacements[j]).toContain(word);
      const gold = probabilities[i]![result.label]!;
      const isFooled = Math.max(...probabilities[i]!) > gold;
      expect(isFooled).toBe(result.outcome !== "failed");
      expect(result.after[result.label]).toBeCloseTo(gold, 4);
    }
  });

  it("continues a journal that was cut off as if it had not been", async () => {
    await attack("cut", {}, { count: 5 });
    expect((await attack("cut", {}, { resume: true })).length).toBe(targets.length - 5);
    expect(readFileSync(join(folder, "cut.jsonl"), "utf8")).toBe(readFileSync(join(folder, "whole.jsonl"), "utf8"));
  });

  it("changes no more words than it may: those of most weight", async () => {
    targets = targets.map((target) => ({ ...target, maxChanged: 1 }));
    for (const result of await attack("one")) expect(result.edits.length).toBeLessThanOrEqual(1);
    targets = targets.map((target) => ({ ...target, maxChanged: 99 }));
  });

  it("keeps to its budget, and refuses one that holds no step", async () => {
    const results = await attack("budget", {}, { budget: 5 });
    expect(Math.max(...results.map(({ queries }) => queries))).toBe(5);
    await expect(attack("no-budget", {}, { budget: 1 })).rejects.toThrow(
      "expected a budget of at least 2 queries, received 1",
    );
  });

  it("needs a model that reads words, and options that are there", () => {
    const subword = { ...victim(), model: { ...model, tokenization: "subword" as const } };
    expect(() => createAsccAttacker(subword)).toThrow("encoding: word");
    expect(() => createAsccAttacker(victim(), { step: 3 })).toThrow('did you mean "steps"');
  });
});

describe("the search in the convex hull", () => {
  const options = hullSchema.parse({});
  const open = () =>
    items.map(({ encoding: encoded, example }, i) => ({
      encoding: encoded,
      modifiableWords: modifiableWords(
        targets[i]!.replacements,
        Int32Array.from(targets[i]!.words.keys(), (j) => j + 1),
        model.tokenizer.wordToId,
      ),
      label: example.label,
      rng: new Rng("hull").fork(i),
    }));

  it("moves predictions further than the best of ten random mixtures, on nearly every text", () => {
    const before = getMemoryStats().tensors;
    const share = computeWinRate(measureAdversaryStrength(victim(), open(), options));
    expect(share).toBeGreaterThan(0.9);
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("does not depend on what lies beside a text in its batch", () => {
    const together = findWorstCaseSubstitutions(victim(), open(), { ...options, innerSteps: 3 });
    const alone = open().map((text) => findWorstCaseSubstitutions(victim(), [text], { ...options, innerSteps: 3 })[0]!);
    // The start depends on the padded length, the search on sums in another order: where one slot clearly leads, it is the same.
    for (const [i, picks] of together.entries())
      for (const [j, share] of picks.mixtureWeights.entries())
        if (share > 0.7) expect(alone[i]!.replacementIndices[j]).toBe(picks.replacementIndices[j]);
  });

  it("puts the slots' tokens into their places", () => {
    const [text] = open();
    const slots = text!.modifiableWords.candidateIds.map(() => 1);
    const changed = withReplacements(text!.encoding, text!.modifiableWords, Int32Array.from(slots));
    const words = buildAttackSpace(targets[0]!.words, targets[0]!.fields, [], { of: () => [] } as never);
    expect(words.replacements.length).toBe(text!.modifiableWords.candidateIds.length);
    for (const [i, position] of text!.modifiableWords.tokenPositions.entries())
      expect(changed.ids[position]).toBe(text!.modifiableWords.candidateIds[i]![1]);
    expect(changed.ids[0]).toBe(text!.encoding.ids[0]);
  });
});
