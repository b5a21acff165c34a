import { expect, test } from "vitest";
import type { RunFolder } from "../../src/runs/run-folder.js";
import { readCharts } from "../../src/studio/charts.js";

test("the chart of loss terms has only loss terms, and logged values have their own charts", async () => {
  const logged = { disagreement: 0.1, information: 2, "rose.gamma": 0.3 };
  const ratios = { "rose.updateRatio": 0.5, "rose.updateRatio.0": 0.4, "rose.updateRatio.head": 0.6 };
  const event = { step: 1, epoch: 0.1, learningRate: 1e-4, loss: 1, "loss.task": 0.7, "loss.rift": 0.3 };
  const events = [1, 2].map((step) => ({ ...event, step, ...logged, ...ratios }));
  const run = { events: async () => events, timings: async () => [] };
  const charts = await readCharts(run as unknown as RunFolder);
  const names = Object.fromEntries(charts.map(({ id, series }) => [id, series.map(({ name }) => name)]));
  expect(names).toEqual({
    loss: ["loss", "loss.task", "loss.rift"],
    "learning-rate": ["learning rate"],
    disagreement: ["disagreement"],
    information: ["information"],
    "rose.gamma": ["rose.gamma"],
    "rose.updateRatio": ["rose.updateRatio", "layer 0", "head"],
  });
});
