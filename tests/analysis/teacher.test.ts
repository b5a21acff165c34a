import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { analyze } from "../../src/analysis/index.js";
import { listen } from "../../src/base/events.js";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { RunFolder } from "../../src/runs/run-folder.js";
import { Interrupted } from "../../src/train/index.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews, writeTinyBert } from "../tiny-run.js";

const folder = temporaryFolder();
const model = await writeTinyBert(join(folder, "tiny-bert"));
const substitutions = join(folder, "table.json");
mkdirSync(folder, { recursive: true });
writeFileSync(substitutions, JSON.stringify({ good: ["dull"], bad: ["warm"], film: ["plot"], bright: ["grey"] }));
const request = {
  analysis: "teacher" as const,
  ...{ model, data: writeReviews(join(folder, "reviews.tsv"), 60), textColumn: ["text"] },
  ...{ labelColumn: "label", substitutions, epochs: 1, batchSize: 8, maxLength: 12, numExamples: 6 },
  ...{ device: "cpu", threads: 1 },
};

describe("the teacher analysis", () => {
  test("trains and attacks one head per pooling on an unchanged encoder, and continues after a stop", async () => {
    const out = join(folder, "out");
    const stop = new AbortController();
    const stages = new Set<string>();
    const onProgress = ({ stage }: { stage: string }): void => {
      stages.add(stage);
      if (stage.startsWith("mean")) stop.abort();
    };
    const first = analyze(
      { ...request, out, poolings: ["cls", "mean"] },
      { ...listen({ progress: onProgress }), signal: stop.signal },
    );
    await expect(first).rejects.toThrow(Interrupted);
    expect([...stages]).toContain("cls (1 of 2): attack pwws");
    const finished = readFileSync(join(out, "teacher", "cls", "results.json"), "utf8");

    const { data, summary, files } = await analyze({ ...request, out, poolings: ["cls", "mean"] });
    expect(readFileSync(join(out, "teacher", "cls", "results.json"), "utf8")).toBe(finished);
    expect(data.poolings.map(({ pooling, examples }) => [pooling, examples])).toEqual([
      ["cls", 6],
      ["mean", 6],
    ]);
    for (const { clean, robust } of data.poolings) {
      expect(robust.accuracy).toBeLessThanOrEqual(clean.accuracy);
      expect(robust.low).toBeLessThanOrEqual(robust.accuracy);
    }
    const percent = (value: number): string => `${(100 * value).toFixed(1)}%`;
    for (const { pooling, robust } of data.poolings)
      expect(summary).toContain(
        `${pooling} ${percent(robust.accuracy)} (${percent(robust.low)} to ${percent(robust.high)}) under pwws`,
      );
    expect(summary).not.toMatch(/most|best/);
    expect(readFileSync(files.svg, "utf8")).toContain("Robustness of frozen features");

    const before = await openSafetensors(join(model, "model.safetensors"));
    for (const pooling of ["cls", "mean"] as const) {
      const run = await RunFolder.open(join(out, "teacher", pooling));
      expect(run.config).toMatchObject({ pooling, head: "mlp", tokenization: "word", train: { dropout: false } });
      const after = await openSafetensors(join(run.path("model"), "model.safetensors"));
      // A model with an mlp head is saved as a bare encoder, without the prefix of its names.
      const encoder = [...after.entries.keys()].filter((name) => before.entries.has(`bert.${name}`));
      expect(encoder.length).toBeGreaterThan(10);
      for (const name of encoder) expect(after.readSync(name), name).toEqual(before.readSync(`bert.${name}`));
      await after.close();
    }
    await before.close();
  });

  test("leaves out a pooler that is not in the checkpoint", async () => {
    const warnings: string[] = [];
    const roberta = { ...request, model: "tests/fixtures/roberta-random", out: join(folder, "roberta") };
    const only = analyze({ ...roberta, poolings: ["pooler"] });
    await expect(only).rejects.toThrow(/has no pre-trained pooler. Use --pooling cls or --pooling mean/);
    const stop = new AbortController();
    stop.abort();
    const both = analyze(
      { ...roberta, poolings: ["mean", "pooler"] },
      { ...listen({ warning: ({ message }) => warnings.push(message) }), signal: stop.signal },
    );
    await expect(both).rejects.toThrow(Interrupted);
    expect(warnings).toContainEqual(expect.stringMatching(/no pre-trained pooler, so that pooling is left out/));
  });
});
