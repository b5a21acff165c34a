import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createAttackExample, createInputBuilder } from "../../src/attacks/attack-space.js";
import { constraintsSchema } from "../../src/attacks/constraints.js";
import { createModelVictim, type EncodedInput } from "../../src/attacks/model-victim.js";
import { SearchPool } from "../../src/attacks/pool.js";
import type { AttackResult } from "../../src/attacks/result.js";
import type { Victim } from "../../src/attacks/victim.js";
import {
  type Classifier,
  cpuFloat32,
  createEagerClassifier,
  loadModel,
  type Model,
  tokenizeFor,
} from "../../src/models/index.js";
import { free, getMemoryStats, Rng } from "../../src/tensor/index.js";
import { loadSubstitutions, type Substitutions } from "../../src/text/substitutions.js";
import { predictProbabilities } from "../../src/train/index.js";
import { temporaryFolder } from "../temporary.js";
import { attack, collect } from "./scripted.js";
import { reviewExamples, tinyVictim } from "./tiny-victim.js";

const folder = temporaryFolder();
const models: Record<"subword" | "word", Model> = {} as never;
let substitutions: Substitutions;

beforeAll(async () => {
  for (const encoding of ["subword", "word"] as const) {
    const made = await tinyVictim(join(folder, encoding), { tokenization: encoding });
    models[encoding] = await loadModel(made.run);
    substitutions = await loadSubstitutions(made.substitutions);
  }
});

const open = (
  model: Model,
  classifier: Classifier = createEagerClassifier(model, model.weights),
): Promise<Victim<EncodedInput>> => createModelVictim(model, classifier, cpuFloat32);

function targetsOf(model: Model, count: number) {
  const encode = (texts: readonly string[]) => model.tokenizer.encodeWords(texts, model.maxLength);
  const options = { modifiableFields: [0], substitutions, constraints: constraintsSchema.parse({}), encode };
  return reviewExamples(count).map((example) => createAttackExample(example, options));
}

describe.each(["subword", "word"] as const)("a model with encoding %s", (encoding) => {
  test("is given what its tokenizer makes of the changed text", async () => {
    const model = models[encoding];
    const victim = await open(model);
    const rng = new Rng("picks");
    const [unknown] = model.tokenizer.idsToTokens([model.tokenizer.special.unkId]);
    for (const target of targetsOf(model, 40)) {
      const picks = Int16Array.from(target.replacements, (slots) => rng.integer(slots.length));
      const toInput = createInputBuilder(target);
      const changed = toInput({ replacementIndices: picks });
      expect(victim.prepare(changed).encoding.ids).toEqual(tokenizeFor(model, changed.texts("")).ids);
      const mask = rng.integer(target.words.length);
      const hidden = Array.from(victim.prepare(toInput({ replacementIndices: picks, mask })).encoding.ids);
      if (encoding === "subword")
        expect(hidden).toEqual(
          Array.from(tokenizeFor(model, toInput({ replacementIndices: picks, mask }).texts(unknown!)).ids),
        );
      else
        expect(hidden).toEqual(
          Array.from(victim.prepare(changed).encoding.ids).with(mask + 1, model.tokenizer.special.unkId),
        );
    }
  });

  test("reads pairs, also with an empty second text", async () => {
    const model = models[encoding];
    const victim = await open(model);
    for (const texts of [
      ["the film", "was good"],
      ["the film", ""],
      ["", "bad"],
    ]) {
      const encode = (pair: readonly string[]) => model.tokenizer.encodeWords(pair, model.maxLength);
      const target = createAttackExample(
        { id: "1", label: 0, texts },
        { modifiableFields: [0, 1], substitutions, constraints: constraintsSchema.parse({}), encode },
      );
      const prepared = victim.prepare(
        createInputBuilder(target)({ replacementIndices: new Int16Array(target.words.length) }),
      );
      expect(prepared.encoding.ids).toEqual(tokenizeFor(model, texts).ids);
      expect(prepared.encoding.tokenTypeIds).toEqual(tokenizeFor(model, texts).tokenTypeIds);
    }
  });

  test("answers as it does in evaluation, and leaves no tensor behind", async () => {
    const model = models[encoding];
    const victim = await open(model);
    const inputs = targetsOf(model, 50).map((target) =>
      victim.prepare(createInputBuilder(target)({ replacementIndices: new Int16Array(target.words.length) })),
    );
    const before = getMemoryStats().tensors;
    const rows = await victim.probabilities(inputs);
    expect(getMemoryStats().tensors).toBe(before);
    for (const [i, { encoding: encoded }] of inputs.entries()) {
      const [alone] = await predictProbabilities(model, model.weights, [encoded]);
      for (const [k, value] of alone!.entries()) expect(rows[i]![k]).toBeCloseTo(value, 6);
    }
  });

  test.each(["pwws", "genetic"])(
    "%s finds the same whatever the pool and the batches; near-ties alone may turn",
    async (name) => {
      const model = models[encoding];
      const search = await attack(name, name === "genetic" ? { population: 6, iterations: 4 } : {});
      const run = async (searches: number, batchTokens: number, batchCost: number): Promise<AttackResult[]> => {
        const victim = await open(model, { ...createEagerClassifier(model, model.weights), batchTokens, batchCost });
        return collect(
          new SearchPool(victim, { concurrency: searches }).run(targetsOf(model, 40), search, { seed: 5 }),
        );
      };
      const expected = await run(1, 8, 0);
      expect(new Set(expected.map(({ outcome }) => outcome))).toContain("success");
      for (const [searches, tokens, cost] of [
        [7, 64, 0],
        [40, 2048, 32],
        [16, 300, 1000],
      ] as const) {
        const found = await run(searches, tokens, cost);
        for (const [i, result] of found.entries()) {
          if (result.nearTie || expected[i]!.nearTie) continue;
          const { before, after, ...rest } = result;
          const { before: first, after: last, ...same } = expected[i]!;
          expect(rest).toEqual(same);
          for (const [k, value] of [...before, ...after].entries())
            expect(value).toBeCloseTo([...first, ...last][k]!, 5);
        }
      }
    },
  );
});

test("the hash says what decides the answers", async () => {
  const model = models.subword;
  const classifier = createEagerClassifier(model, model.weights);
  const hash = async (changed: Model, compute: "float32" | "bfloat16" = "float32") =>
    (await createModelVictim(changed, classifier, { device: "cpu", computeDtype: compute })).hash;
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

test("a text that spells a separator is not a pair", async () => {
  const victim = await open(models.subword);
  const contents = [["good [SEP] bad"], ["good", "bad"]].map((texts) => {
    const input = { words: [], fields: [], fieldCount: texts.length, texts: () => texts };
    return Buffer.from(victim.prepare(input).content).toString("hex");
  });
  expect(contents[0]).not.toBe(contents[1]);
});

test("a model without a trained head is refused", async () => {
  const bare = await loadModel(join(folder, "subword", "tiny-bert"), { labels: ["a", "b"] });
  await expect(open(bare)).rejects.toThrow("expected a trained classifier, but the checkpoint lacks classifier.weight");
  free(bare.weights);
});
