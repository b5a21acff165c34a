import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { encode } from "../../src/actions/encode/encode.js";
import { prepareRun } from "../../src/actions/train/prepare-run.js";
import { train as trainRun } from "../../src/actions/train/train.js";
import { analyze } from "../../src/analysis/index.js";
import { listen } from "../../src/events.js";
import { resolveRun, userModules } from "../../src/runs/read-config.js";
import { free } from "../../src/tensor/index.js";
import { Interrupted, singleRank, train } from "../../src/train/index.js";
import { isLong } from "../long.js";
import { familyNames, writeFamilyMaskedLm } from "../models/family-models.js";
import { temporaryFolder } from "../temporary.js";

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
  ...[["roast"], ["sam"], ["temperature", "flooding"], ["lora"]],
];

// Two families that differ most from BERT; in make test-long, all of them.
const tested = isLong ? familyNames : ["albert", "modernbert"];

describe.each(tested)("%s", (name) => {
  const out = join(folder, `${name}-run`);
  beforeAll(() => writeFamilyMaskedLm(join(folder, name), name));
  const createConfig = (methods: readonly string[], changes: object = {}) =>
    resolveRun(
      {
        ...{ model: join(folder, name), data, textColumn: ["text"], labelColumn: "label" },
        ...{ tokenization: "word", substitutions, maxLength: 12, device: "cpu", threads: 1, methods, ...changes },
        train: { epochs: 1, batchSize: 6, learningRate: 1e-3 },
      },
      userModules,
    );

  test("every method stack takes steps with finite losses and changes the weights", async () => {
    for (const methods of stacks) {
      // RIFT needs a head that reads its features.
      const { job } = await prepareRun(await createConfig(methods, { head: "mlp" }));
      const losses: number[] = [];
      // The query projections are adapted in every family.
      const pattern = methods.includes("lora") ? /\b(query|query_proj|q_lin|q|Wqkv)\.weight$/ : /(word|tok)_embeddings/;
      const key = [...job.model.weights.keys()].find((weight) => pattern.test(weight))!;
      const before = job.model.weights.get(key)!.toFloat32Array();
      const callbacks = listen({ step: ({ loss }) => losses.push(loss) });
      await train({
        ...job,
        ...callbacks,
        ranks: singleRank,
        validation: null,
        files: null,
        resume: false,
        stopAfter: 2,
      });
      expect(losses.every(Number.isFinite), methods.join("+")).toBe(true);
      expect(job.model.weights.get(key)!.toFloat32Array()).not.toEqual(before);
      free(job.model.weights);
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
      sample: { numExamples: 3 },
      resources: { substitutions },
      runtime: { device: "cpu", threads: 1 },
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
    async function* inputs() {
      yield { texts: ["the film was joy"], line: 1 };
    }
    for await (const { feature } of encode({ model: out, device: "cpu", inputs: inputs() }))
      expect(feature.every(Number.isFinite)).toBe(true);
  });
});
