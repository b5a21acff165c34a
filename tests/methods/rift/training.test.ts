import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { listen } from "../../../src/base/events.js";
import { getMemoryStats } from "../../../src/tensor/index.js";
import type { TrainingMethod } from "../../../src/train/index.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { readValues, texts, tinyDataset } from "../tiny.js";
import { expectResumed, type TinyMethod, type TinyRun, trainTiny } from "../train-tiny.js";

const cache = temporaryFolder();
const folder = temporaryFolder();
beforeAll(() => void vi.stubEnv("TEMPER_CACHE", cache));

const small = { projectionHiddenSize: 6, projectionSize: 4 };

/** Trains the tiny model for six steps. The values of its events are numbers. */
const run = (...args: Parameters<typeof trainTiny>) =>
  trainTiny(...args) as Promise<TinyRun & { readonly events: Record<string, number>[] }>;

describe("a method with zero weight is bitwise identical to its base", () => {
  const ascc: TinyMethod = ["ascc", { innerSteps: 2, beta: 4 }];
  // The parameters of rift are part of the global norm, so clipping would round differently. RIFT
  // does not clip.
  const unclipped = { maxGradNorm: null };

  it.each<[string, TinyMethod[], TinyMethod[]]>([
    ["rift with alpha 0 is ascc", [ascc, ["rift", { alpha: 0, ...small }]], [ascc]],
    ["rift with alpha 0 is standard", [["rift", { alpha: 0, ...small }]], []],
    ["ascc with beta 0 is standard", [["ascc", { beta: 0, innerSteps: 2 }]], []],
    ["mixout with p 0 is its base", [ascc, ["mixout", { p: 0 }]], [ascc]],
    ["ptwd with lambda 0 is its base", [ascc, ["ptwd", { lambda: 0 }]], [ascc]],
  ])("%s", async (_name, degenerate, base) => {
    const [ours, theirs] = [await run(degenerate, unclipped), await run(base, unclipped)];
    expect(ours.weights).toEqual(theirs.weights);
    expect(ours.weights).not.toEqual((await run([["ascc", { innerSteps: 2, beta: 7 }]], unclipped)).weights);
  });

  it("ascc with an interval has the adversary in every n-th step, and standard steps between them", async () => {
    const every = await run([ascc], { loggingSteps: 1 });
    const third = await run([["ascc", { innerSteps: 2, beta: 4, interval: 3 }]], { loggingSteps: 1 });
    const steps = third.events.filter(({ loss }) => loss !== undefined);
    expect(steps.map((event) => event["loss.robust"] !== undefined)).toEqual([true, false, false, true, false, false]);
    expect(steps[0]).toEqual(every.events.find(({ step }) => step === 1));
    expect(steps[1]!.loss).toBe(steps[1]!["loss.task"]);
    // With two batches per step, a step is either standard or not.
    const parts = await run([["ascc", { innerSteps: 2, interval: 2 }]], {
      loggingSteps: 1,
      gradientAccumulationSteps: 2,
    });
    const robust = parts.events.filter(({ loss }) => loss !== undefined).map((event) => "loss.robust" in event);
    expect(robust).toEqual(robust.map((_, i) => i % 2 === 0));
  });

  it("without dropout, one candidate per word makes the perturbed pass equal to the clean one", async () => {
    const { events } = await run([["ascc", { candidatesPerWord: 1, innerSteps: 2 }]], { dropout: false });
    expect(events.map((event) => event["loss.robust"])).toEqual(events.map(() => 0));
    const open = await run([["ascc", { innerSteps: 2 }]], { dropout: false });
    expect(Math.min(...open.events.map((event) => event["loss.robust"] as number))).toBeGreaterThan(0);
  });
});

describe("mixout", () => {
  it("mixes every encoder parameter in each pass, including the adversary's, but not the head", async () => {
    const seen: Map<string, number[]>[] = [];
    const observer: TrainingMethod = {
      name: "observer",
      losses(context, next) {
        for (const pass of ["perturbed", "perturbed", "clean"] as const)
          seen.push(
            new Map(
              [...context.weights(pass, { training: true })].map(([name, value]) => [
                name,
                [...value.toFloat32Array()],
              ]),
            ),
          );
        expect(readValues(context.weights("search", { training: false }))).toEqual(
          readValues(context.training.job.model.weights),
        );
        return next();
      },
    };
    // After the first step, the weights differ from the pre-trained ones, so the mixture shows.
    await run([["mixout", { p: 0.9 }], observer], {}, { stopAfter: 2 });
    const [first, again, clean] = seen.slice(3) as [
      Map<string, number[]>,
      Map<string, number[]>,
      Map<string, number[]>,
    ];
    expect(again).toEqual(first);
    for (const [name, values] of first) {
      if (name.startsWith("classifier")) expect(clean.get(name)).toEqual(values);
      else if (values.length > 60) expect(clean.get(name), name).not.toEqual(values);
    }
  });
});

describe("rift", () => {
  it("sees the perturbed text on top of ascc; alone or below ascc it sees clean text, with a warning", async () => {
    const information = async (...methods: TinyMethod[]): Promise<[number | undefined, string[]]> => {
      const warnings: string[] = [];
      const { events } = await run(methods, {}, listen({ warning: ({ message }) => warnings.push(message) }));
      return [events[0]?.information, warnings];
    };
    const [ascc, rift]: [TinyMethod, TinyMethod] = [
      ["ascc", { innerSteps: 2 }],
      ["rift", small],
    ];
    const [alone, below, onTop] = [
      await information(rift),
      await information(rift, ascc),
      await information(ascc, rift),
    ];
    expect(below).toEqual([alone[0], [expect.stringContaining("use --method ascc --method rift")]]);
    expect(onTop[0]).not.toBe(alone[0]);
    expect(onTop[1]).toEqual([]);
  });

  it("caches the teacher features on disk, so a second run computes none", async () => {
    const progress: number[] = [];
    const first = await run([["rift", small]]);
    const { readdirSync, statSync } = await import("node:fs");
    const entries = () =>
      readdirSync(join(cache, "teacher")).map((name) => [name, statSync(join(cache, "teacher", name)).mtimeMs]);
    const before = entries();
    const second = await run([["rift", small]], {}, listen({ progress: ({ done }) => progress.push(done) }));
    expect(entries()).toEqual(before);
    expect(before.length).toBeGreaterThan(0);
    expect(progress).toContain(texts.length);
    expect(second.weights).toEqual(first.weights);
  });

  it("trains differently with each option: conditional, negatives, queueSize and tau", async () => {
    const variants: Record<string, unknown>[] = [
      {},
      { conditional: false },
      { negatives: "students" },
      { queueSize: 5 },
      { tau: 1 },
    ];
    const runs = await Promise.all(variants.map((options) => run([["rift", { alpha: 1, ...small, ...options }]])));
    expect(new Set(runs.map(({ weights }) => JSON.stringify(weights))).size).toBe(variants.length);
    for (const { events } of runs)
      for (const event of events) expectClose(event["loss.information"], -(event.information as number));
  });

  it.each([[[]], [[["ascc", { innerSteps: 2 }]]]] as [TinyMethod[]][])(
    "separatePass gives the information term dropout masks of its own, on top of %j",
    async (inner) => {
      const train = (separatePass: boolean, dropout: boolean) =>
        run([...inner, ["rift", { separatePass, ...small }]], { dropout });
      const [shared, separate] = [await train(false, true), await train(true, true)];
      const term = (event: Record<string, number> | undefined, name: string): number | undefined => event?.[name];
      // The other terms of the first step do not change.
      for (const name of ["loss.task", "loss.robust"])
        expect(term(separate.events[0], name)).toBe(term(shared.events[0], name));
      expect(term(separate.events[0], "information")).not.toBe(term(shared.events[0], "information"));
      const [once, twice] = [await train(false, false), await train(true, false)];
      expect(term(twice.events[0], "information")).toBe(term(once.events[0], "information"));
    },
  );

  it.each(["shuffled", "class-balanced", "undersampled", "single-class"])(
    "supports %s batches",
    async (batchSampler) => {
      const { events } = await run(
        [
          ["ascc", { innerSteps: 1 }],
          ["rift", small],
        ],
        { batchSampler, batchSize: 3 },
      );
      for (const event of events) expect(event.loss).toBeGreaterThan(-10);
      // A single example of a class has no information.
      if (batchSampler === "class-balanced")
        for (const event of events) expectClose(event.information, 0, { scale: 1 });
    },
  );

  it("writes the same events and weights if it is interrupted and resumed, including its queue", async () => {
    const methods: TinyMethod[] = [
      ["ascc", { innerSteps: 2 }],
      ["rift", { ...small, queueSize: 6, alpha: 1 }],
      ["mixout", { p: 0.3 }],
    ];
    const { folders } = await expectResumed(folder, methods, 3, { saveSteps: 2 });
    const [whole, stopped] = folders.map((out) => readFileSync(join(out, "events.jsonl"), "utf8"));
    expect(stopped).toBe(whole);
  });

  it("frees all tensors of a step and of a run with evaluations", async () => {
    const started = getMemoryStats().tensors;
    const counts: number[] = [];
    const watch = listen({ step: () => counts.push(getMemoryStats().tensors) });
    const methods: TinyMethod[] = [
      ["ascc", { innerSteps: 2 }],
      ["rift", { ...small, queueSize: 3 }],
      ["ptwd"],
      ["mixout"],
    ];
    await run(methods, { epochs: 5, batchSize: 12 }, watch);
    expect(counts.length).toBe(5);
    expect(new Set(counts.slice(1)).size).toBe(1);
    await run(
      methods,
      { epochs: 2, batchSize: 12, metricForBestModel: "robust-accuracy" },
      { validation: tinyDataset(texts) },
    );
    expect(getMemoryStats().tensors).toBe(started);
  });
});

describe("robust accuracy", () => {
  it("selects the checkpoint and is at most the clean accuracy", async () => {
    const evaluations: Record<string, number>[] = [];
    const watch = listen({ evaluation: ({ metrics }) => evaluations.push({ ...metrics }) });
    const settings = { epochs: 12, batchSize: 12, evalSteps: 3, metricForBestModel: "robust-accuracy", dropout: false };
    await run([["ascc", { innerSteps: 5, beta: 1 }]], settings, { ...watch, validation: tinyDataset(texts) });
    expect(evaluations.length).toBe(4);
    for (const metrics of evaluations) {
      expect(metrics["robust-accuracy"]).toBeLessThanOrEqual(metrics.accuracy as number);
      expect(metrics["robust-accuracy"]).toBeGreaterThanOrEqual(0);
    }
  });
});
