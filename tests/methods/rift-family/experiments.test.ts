import { describe, expect, it } from "vitest";
import type { RunConfig } from "../../../src/settings/config.js";
import { readRun } from "../../../src/settings/read-config.js";
import { readSweepCell } from "../../../src/sweeps/expand.js";

const readCell = async (cell: Parameters<typeof readSweepCell>[0]): Promise<RunConfig> =>
  (await readRun({ base: await readSweepCell(cell) })).config;

const tables = { imdb: "experiments/rift-table-1.yaml", snli: "experiments/rift-table-2.yaml" } as const;
const models = { bert: "google-bert/bert-base-uncased", roberta: "FacebookAI/roberta-base" } as const;
const methods = {
  standard: [],
  "adv-base": ["ascc"],
  "adv-ptwd": ["ascc", "ptwd"],
  "adv-mixout": ["ascc", "mixout"],
  rift: ["ascc", "rift"],
} as const;

const cells = (["imdb", "snli"] as const).flatMap((task) =>
  (["bert", "roberta"] as const).flatMap((model) =>
    (Object.keys(methods) as (keyof typeof methods)[]).map((row) => ({ task, model, row })),
  ),
);

describe("the runs of RIFT's tables 1 and 2", () => {
  it.each(cells)("$task, $model, $row differs from the others only in methods and model", async (cell) => {
    const { task, model, row } = cell;
    const config = await readCell({ file: tables[task], row, column: model, seed: 0 });
    const reference = await readCell({ file: tables[task], row: "rift", column: "bert", seed: 0 });
    expect(config.methods.map(({ name }) => name)).toEqual(methods[row]);
    expect(config).toMatchObject({ task, model: models[model] });
    // Without an adversary there is no robust accuracy to select a checkpoint by.
    const metricForBestModel = row === "standard" ? "accuracy" : "robust-accuracy";
    expect(config).toEqual({
      ...reference,
      methods: config.methods,
      model: config.model,
      train: { ...reference.train, metricForBestModel },
    });
  });

  it("include the unconditional objective in table 3", async () => {
    for (const column of ["imdb-bert", "imdb-roberta", "snli-bert", "snli-roberta"]) {
      const file = "experiments/rift-table-3.yaml";
      const [conditional, unconditional] = await Promise.all(
        ["conditional", "unconditional"].map((row) => readCell({ file, row, column, seed: 0 })),
      );
      expect(conditional!.methods.map(({ name }) => name)).toEqual(["ascc", "rift"]);
      const [ascc, rift] = conditional!.methods;
      expect(unconditional).toEqual({
        ...conditional,
        methods: [ascc, { name: "rift", options: { ...rift!.options, conditional: false } }],
      });
    }
  });
});
