import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { EditedText } from "../../src/attacks/edited-text.js";
import { equipAttack, loadAttack } from "../../src/attacks/load-attack.js";
import { createModelVictim } from "../../src/attacks/model-victim.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { AttackResult } from "../../src/attacks/result.js";
import { renderQuery } from "../../src/attacks/run-recipe.js";
import { swapFromTable } from "../../src/attacks/transformations/swap-from-table.js";
import {
  type Classifier,
  cpuFloat32,
  createEagerClassifier,
  loadModel,
  type Model,
  predictProbabilities,
  tokenizeFor,
} from "../../src/models/index.js";
import { free, getMemoryStats, Rng } from "../../src/tensor/index.js";
import { loadSubstitutions } from "../../src/text/load-substitutions.js";
import type { Substitutions } from "../../src/text/substitutions.js";
import { expectClose, measureAsyncSpread } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { collect } from "./scripted.js";
import { reviewExamples, tinyVictim } from "./tiny-victim.js";

const folder = temporaryFolder();
const models: Record<"subword" | "word", Model> = {} as never;
let substitutions: Substitutions;

beforeAll(async () => {
  for (const tokenization of ["subword", "word"] as const) {
    const victim = await tinyVictim(join(folder, tokenization), { tokenization });
    models[tokenization] = await loadModel(victim.run);
    substitutions = await loadSubstitutions(victim.substitutions);
  }
});

const createVictim = (
  model: Model,
  classifier: Classifier = createEagerClassifier(model, model.weights),
): ReturnType<typeof createModelVictim> => createModelVictim(model, classifier, cpuFloat32);

describe.each(["subword", "word"] as const)("a model with %s tokenization", (tokenization) => {
  test("receives the tokens of the changed text", async () => {
    const model = models[tokenization];
    const victim = await createVictim(model);
    const rng = new Rng("picks");
    const [unkToken] = model.tokenizer.idsToTokens([model.tokenizer.special.unkId]);
    for (const { texts } of reviewExamples(40)) {
      const original = EditedText.create(texts, victim.findWords);
      const candidates = swapFromTable(substitutions).apply(original, [...original.slots.keys()], rng) as EditedText[];
      const text = candidates[rng.integer(candidates.length)] ?? original;
      const [changed] = victim.prepare([text.texts]);
      expect(changed!.encoding.ids).toEqual(tokenizeFor(model, text.texts).ids);
      expect(victim.prepareEdited([text])[0]!.content).toEqual(changed!.content);
      const position = rng.integer(text.length);
      const hidden = (shown: string): readonly string[] =>
        renderQuery({ text, hidden: { position, shown: { unknown: true } } }, shown);
      const ids = Array.from(victim.prepare([hidden(victim.unkToken)])[0]!.encoding.ids);
      if (tokenization === "subword") expect(ids).toEqual(Array.from(tokenizeFor(model, hidden(unkToken!)).ids));
      else expect(ids).toEqual(Array.from(changed!.encoding.ids).with(position + 1, model.tokenizer.special.unkId));
    }
  });

  test("finds the words that it reads: its tokens, or what people call words", async () => {
    const victim = await createVictim(models[tokenization]);
    const { words } = EditedText.create(["It didn't work, did it?"], victim.findWords);
    expect(words).toEqual(
      tokenization === "word"
        ? ["It", "did", "n't", "work", ",", "did", "it", "?"]
        : ["It", "didn't", "work", "did", "it"],
    );
  });

  test("reads pairs, also with an empty text", async () => {
    const model = models[tokenization];
    const victim = await createVictim(model);
    for (const texts of [
      ["the film", "was good"],
      ["the film", ""],
      ["", "bad"],
    ]) {
      const [prepared] = victim.prepare([texts]);
      expect(prepared!.encoding.ids).toEqual(tokenizeFor(model, texts).ids);
      expect(prepared!.encoding.tokenTypeIds).toEqual(tokenizeFor(model, texts).tokenTypeIds);
    }
  });

  test("returns the same probabilities as evaluation, and leaks no tensor", async () => {
    const model = models[tokenization];
    const victim = await createVictim(model);
    const inputs = victim.prepare(reviewExamples(50).map(({ texts }) => texts));
    const before = getMemoryStats().tensors;
    const scores = await victim.predict(inputs);
    expect(getMemoryStats().tensors).toBe(before);
    const spread = await measureAsyncSpread(async () =>
      (await victim.predict(inputs)).map(({ probabilities }) => Float32Array.from(probabilities)),
    );
    for (const [i, { encoding }] of inputs.entries()) {
      const [alone] = await predictProbabilities(model, model.weights, [encoding]);
      expectClose(scores[i]!.probabilities, alone!, { spread });
    }
  });

  test.each(["pwws", "genetic:population=6,iterations=4"])(
    "%s: results do not depend on concurrency and batches, except for near ties",
    async (name) => {
      const model = models[tokenization];
      const resources = { substitutions, caseInsensitiveSubstitutes: substitutions, labels: ["negative", "positive"] };
      const attack = equipAttack(await loadAttack(name), resources);
      const run = async (concurrency: number, batchTokens: number, batchCost: number): Promise<AttackResult[]> => {
        const victim = await createVictim(model, {
          ...createEagerClassifier(model, model.weights),
          batchTokens,
          batchCost,
        });
        return collect(new SearchPool(victim, { concurrency }).run(reviewExamples(40), attack, { seed: 5 }));
      };
      const expected = await run(1, 8, 0);
      const victim = await createVictim(model);
      const inputs = victim.prepare(reviewExamples(40).map(({ texts }) => texts));
      const spread = await measureAsyncSpread(async () =>
        (await victim.predict(inputs)).map(({ probabilities }) => Float32Array.from(probabilities)),
      );
      expect(new Set(expected.map(({ outcome }) => outcome))).toContain("success");
      for (const [concurrency, tokens, cost] of [
        [7, 64, 0],
        [40, 2048, 32],
        [16, 300, 1000],
      ] as const) {
        const found = await run(concurrency, tokens, cost);
        for (const [i, result] of found.entries()) {
          if (result.nearTie || expected[i]!.nearTie) continue;
          const { before, after, ...rest } = result;
          const { before: first, after: last, ...same } = expected[i]!;
          expect(rest).toEqual(same);
          // Both are written with 6 decimals.
          expectClose([...before, ...after], [...first, ...last], { spread, decimals: 6 - Math.log10(2) });
        }
      }
    },
  );
});

test("a truncated model reads the first words, and attacks on all words find the others, too", async () => {
  // Two of the six tokens are special.
  const victim = await createVictim({ ...models.word, maxLength: 6 });
  const text = "the film was good and the plot was warm";
  expect(EditedText.create([text], victim.findWords).words).toEqual(["the", "film", "was", "good"]);
  expect(EditedText.create([text], victim.findAllWords).words).toEqual(text.split(" "));
});

test("the hash covers everything that determines the answers", async () => {
  const model = models.subword;
  const classifier = createEagerClassifier(model, model.weights);
  const hash = async (changed: Model, computeDtype: "float32" | "bfloat16" = "float32") =>
    (await createModelVictim(changed, classifier, { device: "cpu", computeDtype })).hash;
  const hashes = [
    await hash(model),
    await hash({ ...model, tokenization: "word" }),
    await hash({ ...model, maxLength: 9 }),
    await hash(model, "bfloat16"),
    await hash(models.word),
  ];
  expect(new Set(hashes).size).toBe(hashes.length);
  expect(await hash(model)).toBe(hashes[0]);
});

test("a text that contains a separator differs from a pair", async () => {
  const victim = await createVictim(models.subword);
  const contents = [["good [SEP] bad"], ["good", "bad"]].map((texts) => {
    return Buffer.from(victim.prepare([texts])[0]!.content).toString("hex");
  });
  expect(contents[0]).not.toBe(contents[1]);
});

test("rejects a model without a trained head", async () => {
  const bare = await loadModel(join(folder, "subword", "tiny-bert"), { labels: ["a", "b"] });
  await expect(createVictim(bare)).rejects.toThrow(
    "is not a trained classifier: the checkpoint has no classifier.weight",
  );
  free(bare.weights);
});
