import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { maxWordsChanged } from "../../../src/attacks/constraints/words.js";
import { equipAttack, loadAttack } from "../../../src/attacks/load-attack.js";
import { SearchPool } from "../../../src/attacks/pool.js";
import type { GradientVictim } from "../../../src/attacks/resources.js";
import type { AttackResult } from "../../../src/attacks/result.js";
import { runAttack } from "../../../src/attacks/run-attack.js";
import { findWorstCaseSubstitutions, replaceTokens } from "../../../src/hull/attack-encodings.js";
import { findModifiableWords, hullSchema, logMixtureWeights } from "../../../src/hull/convex-hull.js";
import { createHullBatch } from "../../../src/hull/hull-model.js";
import { type Model, predictProbabilities } from "../../../src/models/index.js";
import { klDivergencePerExample } from "../../../src/nn/index.js";
import { free, getMemoryStats, noGrad, Rng, scope, type Tensor } from "../../../src/tensor/index.js";
import { buildAttackSpace } from "../../../src/text/replacements.js";
import type { Substitutions } from "../../../src/text/substitutions.js";
import { train } from "../../../src/train/index.js";
import { scriptedVictim } from "../../attacks/scripted.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyDataset, tinyJob, tinyModel } from "../tiny.js";

const folder = temporaryFolder();
/** Ten words per text: in the hull of a single word, random mixtures are as good as a search. */
const dataset = tinyDataset(
  Array.from({ length: 24 }, (_, i) => {
    const rng = new Rng("adversary").fork(i);
    return { ids: [2, ...Array.from({ length: 10 }, () => 4 + rng.integer(12)), 3], label: i % 3 };
  }),
);
const { items } = dataset;
let model: Model;
let substitutions: Substitutions;
/** The words of each text with their substitutes. */
let targets: { words: readonly string[]; replacements: readonly (readonly string[])[] }[];

beforeAll(async () => {
  model = tinyModel();
  // A few epochs only: if the model is very confident, the divergence is at its maximum everywhere.
  const job = tinyJob(model, [], { train: dataset }, { epochs: 8, dropout: false, learningRate: 3e-3 });
  await train(job);
  substitutions = await job.loadSubstitutions!();
  targets = items.map(({ example }) => {
    const { words, fields } = model.tokenizer.encodeWords(example.texts, model.maxLength);
    return { words, replacements: buildAttackSpace(words, fields, [0], substitutions) };
  });
});
afterAll(() => free(model.weights));

const victim = (): GradientVictim => ({
  model,
  weights: model.weights,
  device: "cpu" as const,
  hashes: { model: "m", tokenizer: "t" },
});

const createAscc = async (options: Record<string, unknown> = {}, target = victim(), maxChanged = 99) =>
  equipAttack(await loadAttack({ name: "ascc", options }), { model: target, substitutions }, [
    maxWordsChanged({ count: maxChanged }),
  ]);

async function attack(
  name: string,
  rest: { resume?: boolean; stopAfter?: number; budget?: number; maxChanged?: number } = {},
): Promise<AttackResult[]> {
  const journal = join(folder, `${name}.jsonl`);
  const results: AttackResult[] = [];
  await runAttack({
    attack: await createAscc({}, victim(), rest.maxChanged),
    // The attack asks the model itself.
    pool: new SearchPool(scriptedVictim(2, () => [0.5, 0.5])),
    examples: items.map(({ example }) => example),
    seed: 3,
    settings: {},
    journalPath: journal,
    resume: rest.resume ?? false,
    ...(rest.budget !== undefined && { budget: rest.budget }),
    onResult(result) {
      results.push(result);
      if (results.length === rest.stopAfter) throw new Error("interrupted");
    },
  });
  return results;
}

describe("the ascc attack on a trained model", () => {
  it("returns texts of the attack space, and the model misclassifies those that it reports as success", async () => {
    const results = await attack("complete");
    expect(results.map((result) => result.id)).toEqual(items.map(({ example }) => example.id));
    const outcomes = results.map((result) => result.outcome);
    expect(outcomes).toContain("success");
    const encoded = results.map((result) => model.tokenizer.encodeWords(result.finalTexts, model.maxLength));
    const probabilities = await predictProbabilities(model, model.weights, encoded);
    for (const [i, result] of results.entries()) {
      for (const [j, word] of result.finalWords.entries()) expect(targets[i]!.replacements[j]).toContain(word);
      const gold = probabilities[i]![result.label]!;
      const isFooled = Math.max(...probabilities[i]!) > gold;
      expect(isFooled).toBe(result.outcome !== "failed");
      // A journal has six decimals.
      expectClose(result.after[result.label], gold, { terms: 64, decimals: 6 });
    }
  });

  it("resumes an interrupted journal with the same result", async () => {
    await expect(attack("partial", { stopAfter: 5 })).rejects.toThrow("interrupted");
    expect((await attack("partial", { resume: true })).length).toBe(targets.length - 5);
    const read = (name: string): string => readFileSync(join(folder, name), "utf8");
    expect(read("partial.jsonl")).toBe(read("complete.jsonl"));
  });

  it("changes at most maxChanged words", async () => {
    for (const result of await attack("one", { maxChanged: 1 })) expect(result.edits.length).toBeLessThanOrEqual(1);
  });

  it("respects the query budget and rejects one that is too small", async () => {
    const results = await attack("budget", { budget: 5 });
    expect(Math.max(...results.map(({ queries }) => queries))).toBe(5);
    await expect(attack("no-budget", { budget: 1 })).rejects.toThrow("the query budget must be at least 2, received 1");
  });

  it("rejects subword models and unknown options", async () => {
    const subword = { ...victim(), model: { ...model, tokenization: "subword" as const } };
    await expect(createAscc({}, subword)).rejects.toThrow("must use tokenization: word");
    await expect(createAscc({ innerStep: 3 })).rejects.toThrow('did you mean "innerSteps"');
  });
});

describe("the search in the convex hull", () => {
  const options = hullSchema.parse({});
  const createTexts = () =>
    items.map(({ encoding, example }, i) => ({
      encoding,
      modifiableWords: findModifiableWords(
        targets[i]!.replacements,
        Int32Array.from(targets[i]!.words.keys(), (j) => j + 1),
        model.tokenizer.wordToId,
      ),
      label: example.label,
      rng: new Rng("hull").fork(i),
    }));

  it("changes predictions more than the best of ten random mixtures, on nearly every text", () => {
    const before = getMemoryStats().tensors;
    scope(() => {
      const batch = createHullBatch(victim(), createTexts(), options);
      const clean = batch.computeCleanLogits();
      const measureDivergence = (mixtureWeights: Tensor): Float32Array =>
        noGrad(() => klDivergencePerExample(clean, batch.computeLogits(mixtureWeights)).toFloat32Array());
      const initialLogits = batch.sample(
        ({ rng }) => rng.fork("search"),
        (rng) => batch.initialStd * rng.normal(),
      );
      const searched = measureDivergence(
        batch.search(initialLogits, (logits) => klDivergencePerExample(clean, logits).sum()),
      );
      const random = Array.from({ length: 10 }, (_, i) => {
        // Exponential draws divided by their sum are uniformly distributed in the hull.
        const logits = batch.sample(
          ({ rng }) => rng.fork(`mixture ${i}`),
          (rng) => Math.log(-Math.log(1 - rng.next())),
        );
        return measureDivergence(logMixtureWeights(logits, batch.hull.candidateMask).exp());
      });
      const isStronger = [...searched].map((value, row) => random.every((values) => value > values[row]!));
      expect(isStronger.filter(Boolean).length / isStronger.length).toBeGreaterThan(0.9);
    });
    expect(getMemoryStats().tensors).toBe(before);
  });

  it("does not depend on the other texts of a batch", () => {
    const search = { ...options, innerSteps: 3 };
    const together = findWorstCaseSubstitutions(victim(), createTexts(), search);
    const alone = createTexts().map((text) => findWorstCaseSubstitutions(victim(), [text], search)[0]!);
    // The padded length and the order of sums differ, so only clear winners are compared.
    for (const [i, selection] of together.entries())
      for (const [j, weight] of selection.mixtureWeights.entries())
        if (weight > 0.7) expect(alone[i]!.replacementIndices[j]).toBe(selection.replacementIndices[j]);
  });

  it("puts the selected tokens into their positions", () => {
    const [text] = createTexts();
    const selected = text!.modifiableWords.candidateIds.map(() => 1);
    const changed = replaceTokens(text!.encoding, text!.modifiableWords, Int32Array.from(selected));
    expect(targets[0]!.words.length).toBe(text!.modifiableWords.candidateIds.length);
    for (const [i, position] of text!.modifiableWords.tokenPositions.entries())
      expect(changed.ids[position]).toBe(text!.modifiableWords.candidateIds[i]![1]);
    expect(changed.ids[0]).toBe(text!.encoding.ids[0]);
  });
});
