import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createMethods } from "../../../src/methods/index.js";
import { toMethodSpecs } from "../../../src/runs/config.js";
import { readRunConfig } from "../../../src/runs/read-config.js";

const folder = "experiments/rift";
const files = readdirSync(folder);

describe("the experiments of RIFT's tables", () => {
  it("hold every method, model and task", () => {
    const methods = ["standard", "adv-base", "adv-ptwd", "adv-mixout", "rift", "rift-unconditional"];
    const expected = ["imdb", "snli"].flatMap((task) =>
      ["bert", "roberta"].flatMap((model) => methods.map((method) => `${task}-${model}-${method}.yaml`)),
    );
    expect(files.toSorted()).toEqual(expected.toSorted());
  });

  it.each(files)("%s is a config that differs from its table's others in method and model alone", async (file) => {
    const [config, reference] = await Promise.all(
      [file, `${file.slice(0, 4)}-bert-rift.yaml`].map((name) => readRunConfig({ file: join(folder, name) })),
    );
    const layers = createMethods(toMethodSpecs(config!.methods));
    const selectBy = layers.some((layer) => layer.extraMetrics) ? "robust-accuracy" : "accuracy";
    const { methods: method, model } = config!;
    expect(config).toEqual({ ...reference, method, model, train: { ...reference!.train, metricForBestModel } });
  });
});
