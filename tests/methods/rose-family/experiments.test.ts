import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type RunConfig, toMethodSpecs } from "../../../src/runs/config.js";
import { readRunConfig } from "../../../src/runs/read-config.js";

const folder = "experiments/rose";
const files = readdirSync(folder);
const orders = ["first", "second", "ensemble"];
const tableOne = ["standard", "r-drop", "child-tuning", "smart", "freelb", ...orders.map((order) => `rose-${order}`)];
const tableTwo = orders.map((order) => `r-drop-rose-${order}`);

/** Learning rate in units of 1e-5, and upper threshold in per cent: base, then large. */
const published: Record<string, Record<string, readonly [number, number, number, number]>> = {
  first: { qnli: [2, 70, 3, 50], qqp: [2, 70, 2, 70], rte: [4, 80, 1, 80], sst2: [2, 60, 4, 70] },
  second: { qnli: [1, 40, 1, 50], qqp: [10, 60, 1, 60], rte: [4, 60, 2, 50], sst2: [10, 30, 1, 50] },
  ensemble: { qnli: [1, 90, 1, 30], qqp: [5, 75, 1, 80], rte: [4, 80, 1, 85], sst2: [5, 40, 1, 70] },
};

const read = (file: string): Promise<RunConfig> => readRunConfig({ file: join(folder, file) });

describe("the experiments of ROSE's tables", () => {
  test("hold every row, size and task", () => {
    const expected = ["sst2", "rte", "qnli", "qqp"].flatMap((task) =>
      ["base", "large"].flatMap((size) => [...tableOne, ...tableTwo].map((row) => `${task}-${size}-${row}.yaml`)),
    );
    expect(files.toSorted()).toEqual(expected.toSorted());
  });

  test.each(files)(
    "%s is a config that differs from its task's others in method, model and rate alone",
    async (file) => {
      const [task, size] = file.split("-") as [string, string];
      const [config, reference] = await Promise.all([file, `${task}-${size}-standard.yaml`].map(read));
      const { methods: method, train } = config!;
      expect(config).toEqual({
        ...reference,
        method,
        train: { ...reference!.train, learningRate: train.learningRate },
      });
      expect(config).toMatchObject({
        task,
        model: `FacebookAI/roberta-${size}`,
        train: { epochs: 10, batchSize: task === "rte" ? 16 : 32 },
      });
      const choices = toMethodSpecs(method);
      const rose = choices.find(({ name }) => name === "rose");
      if (!rose) return;
      const [baseRate, baseKeep, largeRate, largeKeep] = published[String(rose.options.order)]?.[task] ?? [];
      expect([1e5 * train.learningRate, 100 * Number(rose.options.keep)].map(Math.round)).toEqual(
        size === "base" ? [baseRate, baseKeep] : [largeRate, largeKeep],
      );
      expect(choices.map(({ name }) => name)).toEqual(file.includes("r-drop") ? ["r-drop", "rose"] : ["rose"]);
    },
  );
});
