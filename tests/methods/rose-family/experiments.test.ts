import { describe, expect, test } from "vitest";
import type { RunConfig } from "../../../src/settings/config.js";
import { readRun } from "../../../src/settings/read-config.js";
import { readSweepCell } from "../../../src/sweeps/expand.js";

const readCell = async (cell: Parameters<typeof readSweepCell>[0]): Promise<RunConfig> =>
  (await readRun({ base: await readSweepCell(cell) })).config;

const tableOne = { file: "experiments/rose-table-1.yaml", profile: "published" };
const tableTwo = { file: "experiments/rose-table-2.yaml" };
const variants = ["first", "second", "ensemble"];
const tasks = ["sst2", "rte", "qnli", "qqp"];

/** Published learning rate in units of 1e-5 and upper threshold in percent: base, then large. */
const published: Record<string, Record<string, readonly [number, number, number, number]>> = {
  first: { qnli: [2, 70, 3, 50], qqp: [2, 70, 2, 70], rte: [4, 80, 1, 80], sst2: [2, 60, 4, 70] },
  second: { qnli: [1, 40, 1, 50], qqp: [10, 60, 1, 60], rte: [4, 60, 2, 50], sst2: [10, 30, 1, 50] },
  ensemble: { qnli: [1, 90, 1, 30], qqp: [5, 75, 1, 80], rte: [4, 80, 1, 85], sst2: [5, 40, 1, 70] },
};

const rows = [
  ...["vanilla", "r-drop", "child-tuning", "smart", "freelb"].map((row) => ({ sweep: tableOne, row })),
  ...variants.map((variant) => ({ sweep: tableOne, row: `rose-${variant}` })),
  ...variants.map((variant) => ({ sweep: tableTwo, row: `rose-${variant}` })),
];
const cells = tasks.flatMap((task) =>
  ["base", "large"].flatMap((size) => rows.map((row) => ({ ...row, task, size, file: row.sweep.file }))),
);

describe("the runs of ROSE's tables 1 and 2", () => {
  test.each(cells)("$file, $row, $size $task: only methods and learning rate differ", async (cell) => {
    const { sweep, row, task, size } = cell;
    const column = `${size}-${task}`;
    const config = await readCell({ ...sweep, row, column, seed: 0 });
    const reference = await readCell({ ...tableOne, row: "vanilla", column, seed: 0 });
    const { methods, train } = config;
    expect(config).toEqual({ ...reference, methods, train: { ...reference.train, learningRate: train.learningRate } });
    expect(config).toMatchObject({
      task,
      model: `FacebookAI/roberta-${size}`,
      train: { epochs: 10, batchSize: task === "rte" ? 16 : 32 },
    });
    const rose = methods.find(({ name }) => name === "rose");
    expect(rose !== undefined).toBe(row.startsWith("rose-"));
    if (!rose) return;
    const [baseRate, baseRatio, largeRate, largeRatio] = published[String(rose.options.variant)]?.[task] ?? [];
    expect([1e5 * train.learningRate, 100 * Number(rose.options.updateRatio)].map(Math.round)).toEqual(
      size === "base" ? [baseRate, baseRatio] : [largeRate, largeRatio],
    );
    expect(methods.map(({ name }) => name)).toEqual(sweep === tableTwo ? ["r-drop", "rose"] : ["rose"]);
  });
});
