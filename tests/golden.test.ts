import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { attack } from "../src/actions/attack/attack.js";
import { train } from "../src/actions/train/train.js";
import { readJournal } from "../src/attacks/journal.js";
import { createReport } from "../src/report/index.js";
import { writeGoldenInputs } from "./golden-inputs.js";
import { testLong } from "./long.js";
import { expectClose, measureAsyncSpread } from "./rounding.js";
import { temporaryFolder } from "./temporary.js";

// Two runs as version a14baaf computed them: training, an attack and a report, from seed to number.
const recorded = [
  {
    ...{ method: "r-drop", seed: 0, accuracy: 55 / 60, lastLoss: 0.2152 },
    losses: [0.69338, 0.68589, 0.70679, 0.69123, 0.69283, 0.6969, 0.70736, 0.69228, 0.69705, 0.68809],
    // Of the attacked texts: accuracy before and under pwws.
    report: ["100.0%", "75.8% to 100.0%", "16.7%", "4.7% to 44.8%"],
    // The number of a row: outcome, queries and edits of pwws.
    pwws:
      "25 success 20 1, 60 success 24 1, 141 success 26 1, 156 success 27 2, 193 success 23 1, 234 success 17 1, " +
      "252 success 14 2, 330 failed 10 2, 496 failed 10 2, 501 success 12 1, 527 success 19 1, 587 success 11 1",
  },
  {
    ...{ method: "rose", seed: 1, accuracy: 49 / 60, lastLoss: 0.5028 },
    losses: [0.69291, 0.69789, 0.69519, 0.69137, 0.69276, 0.69389, 0.68988, 0.68386, 0.70515, 0.69305],
    report: ["83.3%", "55.2% to 95.3%", "16.7%", "4.7% to 44.8%"],
    pwws:
      "25 success 20 1, 60 success 25 2, 141 success 26 1, 156 success 26 1, 193 success 23 1, 234 skipped 1 0, " +
      "252 skipped 1 0, 330 failed 10 2, 496 failed 10 2, 501 success 12 1, 527 success 19 1, 587 success 11 1",
  },
];

testLong("losses, attacked texts and a report stay as they were", async () => {
  const folder = temporaryFolder();
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  const { model, data, substitutions } = await writeGoldenInputs(folder);
  const runtime = { device: "cpu", precision: "fp32", threads: 1 } as const;
  const settings = { epochs: 4, batchSize: 16, learningRate: 0.005 };
  const runs: string[] = [];
  for (const { method, seed, accuracy, lastLoss, losses, pwws } of recorded) {
    const out = join(folder, method);
    runs.push(out);
    const columns = { textColumn: ["text"], labelColumn: "label", tokenization: "word", substitutions } as const;
    const texts = { model, data, ...columns, maxLength: 48, pooling: "mean" } as const;
    const methods = [{ name: method, options: {} }];
    const trainInto = async (folder: string): Promise<Map<string, number>> => {
      await train({ ...texts, ...runtime, methods, seed, train: settings, out: folder });
      const lines = readFileSync(join(folder, "events.jsonl"), "utf8").trim().split("\n");
      const found = lines.map((line) => JSON.parse(line).loss as unknown).filter((loss) => typeof loss === "number");
      return new Map([...found.slice(0, losses.length), found.at(-1)!].map((loss, step) => [`loss ${step}`, loss]));
    };
    const found = await trainInto(out);
    // Each step magnifies the rounding errors of the steps before it.
    const spread = await measureAsyncSpread(() => trainInto(mkdtempSync(`${out}-`)));
    const expected = new Map(losses.map((loss, step) => [`loss ${step}`, loss]));
    expectClose(found, expected, { spread, decimals: 5 });
    expectClose(found, new Map([[`loss ${losses.length}`, lastLoss]]), { spread, decimals: 4 });
    // The smallest margin of a final text is 0.09, far above what rounding does to a probability.
    const { clean } = await attack({ model: out, numExamples: 12, ...runtime });
    const results: [number, string][] = [];
    for await (const { result } of readJournal(join(out, "attacks/pwws.jsonl"))) {
      const row = Number(result.id.split(":")[1]);
      results.push([row, `${row} ${result.outcome} ${result.queries} ${result.edits.length}`]);
    }
    const sorted = results.sort(([a], [b]) => a - b).map(([, text]) => text);
    expect(sorted.join(", ")).toBe(pwws);
    expect(clean).toBe(sorted.filter((text) => !text.includes("skipped")).length / 12);
    const { test: evaluated } = JSON.parse(readFileSync(join(out, "results.json"), "utf8"));
    expect(evaluated.accuracy).toBe(accuracy);
  }
  const { html } = await createReport(runs);
  const cells = html.replaceAll(/<[^>]*>/g, "\n").split(/\s*\n\s*/);
  for (const { method, seed, report } of recorded) {
    const start = cells.findIndex((cell, i) => cell === `seed ${seed}` && cells[i - 1] === method);
    expect(cells.slice(start, start + 40)).toEqual(expect.arrayContaining(report));
  }
});
