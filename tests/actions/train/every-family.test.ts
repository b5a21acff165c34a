import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { prepareRun } from "../../../src/actions/train/prepare-run.js";
import { deferTextAttack, train as trainRun } from "../../../src/actions/train/train.js";
import { analyze } from "../../../src/analysis/index.js";
import { listen } from "../../../src/base/events.js";
import { loadModel } from "../../../src/models/index.js";
import { createSentenceModel } from "../../../src/models/inference/sentence-encoder.js";
import { resolveRun, userModules } from "../../../src/settings/read-config.js";
import { free } from "../../../src/tensor/index.js";
import { Interrupted, train } from "../../../src/train/index.js";
import { isLong } from "../../long.js";
import { readValues } from "../../methods/tiny.js";
import { familyNames, writeFamilyMaskedLm } from "../../models/family-models.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();
const substitutions = join(folder, "table.json");
const data = join(folder, "reviews.tsv");
const words = { bad: "dull", mixed: "slow", good: "joy" };

beforeAll(() => {
  writeFileSync(
    substitutions,
    JSON.stringify({ dull: ["slow", "bad"], joy: ["cat", "film"], film: ["cat"], cat: ["film"] }),
  );
  const rows = Object.entries(words).flatMap(([label, word]) =>
    Array.from(
      { length: 8 },
      (_, i) => `${["the film was", "a cat was", "it sat there and was"][i % 3]} ${word}\t${label}`,
    ),
  );
  writeFileSync(data, `text\tlabel\n${rows.join("\n")}\n`);
});

const stacks = [
  ...[["ascc", "rift"], ["r-drop", "rose"], ["mixout", "ptwd"], ["freelb"], ["smart"], ["child-tuning"]],
  ["lora"],
  ["discrete-adversarial:interval=1,fraction=0.5,maxQueries=20,precision=fp32"],
];

// Two families that differ most from BERT; in make test-long, all of them.
const tested = isLong ? familyNames : ["albert", "modernbert"];

describe.each(tested)("%s", (name) => {
  const out = join(folder, `${name}-run`);
  beforeAll(() => writeFamilyMaskedLm(join(folder, name), name));
  const createConfig = (methods: readonly string[], changes: object = {}, train: object = {}) =>
    resolveRun(
      {
        ...{ model: join(folder, name), data, textColumn: ["text"], labelColumn: "label" },
        ...{ tokenization: "word", substitutions, maxLength: 12, device: "cpu", threads: 1, methods, ...changes },
        train: { epochs: 1, batchSize: 6, learningRate: 1e-3, ...train },
      },
      userModules,
    );

  /** Takes two steps. Returns the losses and the names of the weights that have changed. */
  const takeSteps = async (methods: readonly string[], settings: object = {}) => {
    // RIFT needs a head that reads its features.
    const prepared = await prepareRun(await createConfig(methods, { head: "mlp" }, settings));
    const { weights } = prepared.job.model;
    const losses: number[] = [];
    let attacks = 0;
    try {
      const before = readValues(weights);
      await train({
        ...prepared.job,
        ...listen({ step: ({ loss }) => losses.push(loss) }),
        ...{ validation: null, files: null, resume: false, stopAfter: 2 },
        attackTexts: (request) => {
          if (request.examples.length > 0) attacks++;
          return deferTextAttack(prepared, {})(request);
        },
      });
      const after = readValues(weights);
      const names = [...weights.keys()];
      return { names, losses, attacks, moved: names.filter((key) => String(before[key]) !== String(after[key])) };
    } finally {
      free(weights);
    }
  };

  test("every method stack takes steps with finite losses and changes the weights", async () => {
    for (const methods of stacks) {
      const { losses, moved, attacks } = await takeSteps(methods);
      expect(losses).toHaveLength(2);
      expect(losses.every(Number.isFinite), methods.join("+")).toBe(true);
      // The query projections are adapted in every family.
      const pattern = methods.includes("lora") ? /\b(query|query_proj|q_lin|q|Wqkv)\.weight$/ : /(word|tok)_embeddings/;
      expect(
        moved.some((weight) => pattern.test(weight)),
        methods.join("+"),
      ).toBe(true);
      expect(attacks).toBe(Number(methods[0]!.startsWith("discrete-adversarial")));
    }
  });

  test("a stopped run of ROSE continues bitwise, then it is attacked, analyzed and encoded", async () => {
    const { config } = await createConfig(["rose"]);
    const whole = join(folder, `${name}-whole`);
    await trainRun({ ...config, out: whole });
    const stop = new AbortController();
    const callbacks = listen({ step: ({ step }) => step === 2 && stop.abort() });
    await expect(trainRun({ ...config, out }, { ...callbacks, signal: stop.signal })).rejects.toThrow(Interrupted);
    const run = await trainRun({ ...config, out, resume: true });
    const readWeights = (path: string): Buffer => readFileSync(join(path, "model/model.safetensors"));
    expect(readWeights(out).equals(readWeights(whole))).toBe(true);
    const events = await run.events();
    // Shared layers are one layer: their masks and distances have one entry.
    const ratios = Object.keys(events[1]!).filter((key) => key.startsWith("rose.updateRatio."));
    const distances = Object.keys(events.find((event) => event.distance)!.distance as object);
    const layers = distances.filter((part) => part.startsWith("layer "));
    expect(ratios).toEqual(layers.map((part) => `rose.updateRatio.${part.slice("layer ".length)}`));
    const raw = JSON.parse(readFileSync(join(folder, name, "config.json"), "utf8")) as Record<string, number>;
    expect(layers.length).toBe(raw.num_hidden_groups ?? raw.num_hidden_layers ?? raw.n_layers);

    const report = await run.attack("pwws", {
      numExamples: 3,
      substitutions,
      device: "cpu",
      threads: 1,
    });
    expect(report.attacks.pwws!.accuracyUnderAttack).toBeLessThanOrEqual(report.clean);
    const figure = { out: join(folder, `${name}-figure`), device: "cpu" } as const;
    const { data: around } = await analyze({
      analysis: "landscape",
      runs: [out],
      points: 3,
      numExamples: 3,
      ...figure,
    });
    expect(around.models[0]!.losses.flat().every(Number.isFinite)).toBe(true);
    const features: string[] = [];
    for (const reference of [out, join(folder, name)]) {
      const model = await loadModel(reference);
      const sentences = createSentenceModel(model);
      features.push(String(await sentences.encode(["the film was joy"])));
      sentences.close();
      free(model.weights);
    }
    expect(features.join().includes("NaN")).toBe(false);
    expect(new Set(features).size).toBe(2);
  });
});
