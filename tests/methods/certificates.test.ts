import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { evaluate } from "../../src/actions/evaluate.js";
import { prepareRun } from "../../src/actions/train/prepare-run.js";
import { train } from "../../src/actions/train/train.js";
import { createMethods, findTrainedCertificate, hashVote, methods, randomWindows } from "../../src/methods/index.js";
import { listWindowSizes, listWindows, splitIntoGroups } from "../../src/proofs/certificates/index.js";
import type { RunConfig } from "../../src/settings/config.js";
import { readConfigFile, resolveRun, userModules } from "../../src/settings/read-config.js";
import type { Example, Task } from "../../src/tasks/index.js";
import { free, Rng } from "../../src/tensor/index.js";
import { type TrainingMethod, transformExamples } from "../../src/train/index.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const pairs = { modifiableFields: [1] } as unknown as Task;
const single = { modifiableFields: [0] } as unknown as Task;
const examples: Example[] = [
  { id: "a", texts: ["good film, bad plot and a warm scene"], label: 1 },
  { id: "b", texts: ["dull"], label: 0 },
];
const createOne = (...specs: Parameters<typeof createMethods>[0]): TrainingMethod => createMethods(specs)[0]!;

test("hash-vote trains on the sub-texts of every text", () => {
  const method = createOne(hashVote({ groups: 3 }));
  const transformed = transformExamples([method], examples, single, new Rng(0));
  const expected = examples.flatMap(({ id, texts, label }) =>
    splitIntoGroups(texts, { groups: 3, hashSeed: 0 }).flatMap((part, group) =>
      part === null ? [] : [{ id: `${id}#${group}`, texts: part, label }],
    ),
  );
  expect(transformed).toEqual(expected);
  expect(transformed.length).toBeGreaterThan(2);
  expect(new Set(transformed.map(({ id }) => id)).size).toBe(transformed.length);
});

test("hash-vote keeps fields that no attack changes", () => {
  const pair = [{ id: "p", texts: ["A man sleeps.", "w1 w2 w3 w4 w5"], label: 0 }];
  const all = transformExamples([createOne(hashVote({ groups: 2 }))], pair, pairs, new Rng(0));
  expect(all.map(({ texts }) => texts[0])).toEqual(["A man sleeps.", "A man sleeps."]);
});

test("random-windows trains on windows that a guard scores", () => {
  const method = createOne(randomWindows({ size: 4, copies: 20 }));
  const [first, second] = examples as [Example, Example];
  const trained = transformExamples([method], examples, single, new Rng(0));
  const windows = listWindows(first.texts[0]!, listWindowSizes(4));
  const own = trained.filter(({ id }) => id.startsWith("a#"));
  expect(own).toHaveLength(20);
  for (const { texts, label } of own) expect([windows.includes(texts[0]!), label]).toEqual([true, 1]);
  expect(new Set(own.map(({ texts }) => texts[0])).size).toBeGreaterThan(5);
  expect(new Set(trained.slice(20).map(({ texts }) => texts[0]))).toEqual(new Set(second.texts));
  const pair: Example[] = [{ id: "p", texts: ["one two", "three"], label: 0 }];
  expect(transformExamples([method], pair, single, new Rng(0))).toEqual(pair);
});

test("methods that do not replace examples leave them as they are", () => {
  const others = [...methods.values()].filter(({ certificate, name }) => !certificate && name !== "random-windows");
  const created = createMethods(others.map(({ name }) => ({ name, options: {} })));
  expect(created).toHaveLength(others.length);
  expect(transformExamples(created, examples, single, new Rng(0))).toBe(examples);
});

test("texts without words are an error", () => {
  const method = createOne(hashVote());
  const empty = [{ id: "a", texts: ["?!"], label: 0 }];
  expect(() => transformExamples([method], empty, single, new Rng(0))).toThrow("no text has a word to train on");
});

test("the certificate of a model follows from its methods", () => {
  const voting = findTrainedCertificate([{ name: "hash-vote", options: { groups: 9 } }])!;
  expect(voting.definition.name).toBe("hash-vote");
  expect(voting.options).toEqual({ groups: 9, clip: null, hashSeed: 0, hashVersion: 1 });
  // The options of an earlier version.
  expect(findTrainedCertificate([{ name: "rose", options: { granularity: "tensor" } }])).toBeNull();
  expect(() => createMethods([hashVote({ groups: 1 })])).toThrow(/groups/);
});

const folder = temporaryFolder();
let config: RunConfig;
beforeAll(async () => {
  config = await tinyRun(folder, { train: { epochs: 1 } });
});

const readWeights = (run: string): Buffer => readFileSync(join(run, "model", "model.safetensors"));

test("an unchanged list of examples trains the same weights, bit for bit", async () => {
  const plain = join(folder, "plain");
  await train({ ...config, out: plain });
  const definition = {
    ...{ name: "identity", summary: "", paper: "", options: methods.get("mixout")!.options },
    create: (): TrainingMethod => ({ name: "identity", transformExamples: (list) => [...list] }),
  };
  const same = join(folder, "same");
  await train({ ...config, methods: [{ name: "identity", options: {}, definition }], out: same });
  expect(readWeights(same).equals(readWeights(plain))).toBe(true);
});

test("a run with hash-vote trains on sub-texts, and its config records the groups and the hash", async () => {
  const spec = { name: "hash-vote", options: { groups: 3 } };
  const prepared = await prepareRun(await resolveRun({ ...config, methods: [spec] }, userModules));
  try {
    const { job, examples: loaded } = prepared;
    expect(job.train.items.length).toBeGreaterThan(loaded.train.length);
    expect(job.validation!.items.length).toBeGreaterThan(loaded.validation!.length);
    expect(job.train.items.length).toBeLessThanOrEqual(3 * loaded.train.length);
  } finally {
    free(prepared.job.model.weights);
  }
  const out = join(folder, "voting");
  const request = { ...config, methods: [spec] };
  await train({ ...request, out });
  const recorded = (await readConfigFile(join(out, "config.yaml"))).methods;
  expect(recorded).toEqual([
    {
      name: "hash-vote",
      options: { groups: 3, clip: null, margin: null, hashSeed: 0, hashVersion: 1 },
    },
  ]);
  expect(findTrainedCertificate(recorded)?.options).toMatchObject({ groups: 3, hashVersion: 1 });
  // The same request is the same run, although the record has more options.
  await train({ ...request, out, resume: true });
});

test("with a margin, hash-vote trains the sum of all groups of a text, and validation metrics are those of the vote", async () => {
  for (const groups of [3, "words"].slice(0, chooseExtent(1, 2))) {
    const method = { name: "hash-vote", options: { groups, clip: 1, margin: 0.5 } };
    const out = join(folder, `joint ${groups}`);
    const settings = { ...config.train, epochs: 15, learningRate: 3e-3 };
    const run = await train({ ...config, methods: [method], train: settings, out });
    const { validation } = (await run.results())!;
    expect(validation!.accuracy).toBeGreaterThan(0.6);
    const { metrics } = await evaluate({ model: out, split: "validation" });
    expect(metrics.accuracy).toBe(validation!.accuracy);
  }
});

test("one run cannot replace its texts twice", async () => {
  const both = [hashVote(), randomWindows()];
  const stacked = train({ ...config, methods: both, out: join(folder, "both") });
  await expect(stacked).rejects.toThrow(/random-windows cannot be combined with hash-vote: .*Remove one of them/);
});
