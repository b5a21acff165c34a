import { execFileSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { listen } from "../../src/base/events.js";
import { cpuFloat32, loadModel } from "../../src/models/index.js";
import type { Task } from "../../src/tasks/task.js";
import { free, Rng, type Tensor } from "../../src/tensor/index.js";
import { isBetterModel } from "../../src/train/evaluate.js";
import {
  Interrupted,
  type TrainingJob,
  type TrainingMethod,
  type TrainResult,
  type TrainSettings,
  toDataset,
  train,
  trainSettingsSchema,
} from "../../src/train/index.js";
import { chooseExtent } from "../extent.js";
import { temporaryFolder } from "../temporary.js";
import { reviews, writeTinyBert } from "../tiny-run.js";
import { trainingFiles } from "./training-files.js";

const folder = temporaryFolder();
const labels = ["negative", "positive"];
let modelFolder: string;

beforeAll(async () => {
  modelFolder = await writeTinyBert(join(folder, "tiny-bert"));
});

interface Run {
  outcome: TrainResult | null;
  error: unknown;
  events: string[];
  warnings: string[];
  weights: Map<string, Float32Array>;
}

/** A job of a few milliseconds per step: 96 reviews to train on and 24 for validation. */
async function createJob(
  { seed = 0, ...settings }: Partial<TrainSettings> & { seed?: number },
  changes: Partial<TrainingJob>,
): Promise<TrainingJob> {
  const model = await loadModel(modelFolder, { labels, task: "reviews", seed });
  const examples = reviews(120).map(({ text, label }, i) => ({
    id: String(i),
    texts: [text],
    label: labels.indexOf(label),
  }));
  return {
    model,
    task: { name: "reviews", labels, modifiableFields: [] } as unknown as Task,
    settings: trainSettingsSchema.parse({ epochs: 2, batchSize: 8, learningRate: 1e-2, ...settings }),
    methods: [],
    train: toDataset(model, examples.slice(0, 96)),
    validation: toDataset(model, examples.slice(96)),
    seed,
    deviceConfig: cpuFloat32,
    files: null,
    resume: false,
    ...changes,
  };
}

/** Trains until the end or until an error. */
async function runJob(
  settings: Partial<TrainSettings> & { seed?: number } = {},
  changes: Partial<TrainingJob> = {},
): Promise<Run> {
  const events: string[] = [];
  const warnings: string[] = [];
  const job = await createJob(settings, {
    ...changes,
    onEvent(event) {
      if (event.type === "log") events.push(JSON.stringify(event.entry));
      if (event.type === "warning") warnings.push(event.message);
      changes.onEvent?.(event);
    },
  });
  let [outcome, error]: [TrainResult | null, unknown] = [null, null];
  try {
    outcome = await train(job);
  } catch (thrown) {
    error = thrown;
  }
  const weights = new Map(
    [...job.model.weights].map(([name, tensor]): [string, Float32Array] => [name, tensor.toFloat32Array()]),
  );
  free(job.model.weights);
  return { outcome, error, events, warnings, weights };
}

const readLines = (path: string): string[] => readFileSync(path, "utf8").trim().split("\n");
const listCheckpoints = (path: string): string[] => readdirSync(join(path, "checkpoints")).sort();

test("the head can be trained alone with its own learning rate", async () => {
  const start = await runJob({}, { stopAfter: 0 });
  const probed = await runJob({ learningRate: 0, headLearningRate: 1e-2, weightDecay: 0 });
  for (const [name, values] of start.weights) {
    if (name.startsWith("classifier")) expect(probed.weights.get(name), name).not.toEqual(values);
    else expect(probed.weights.get(name), name).toEqual(values);
  }
});

describe("a run", () => {
  test("has the same events and weights for the same seed, and others for another seed", async () => {
    const [first, again, other] = [await runJob(), await runJob(), await runJob({ seed: 1 })];
    expect(first.events.length).toBeGreaterThan(10);
    expect(again.events).toEqual(first.events);
    expect(again.weights).toEqual(first.weights);
    expect(other.events[0]).not.toEqual(first.events[0]);
    expect(other.weights).not.toEqual(first.weights);
  });

  test("learns the labels", async () => {
    const { outcome } = await runJob({ epochs: 12, dropout: false });
    expect(outcome!.validation!.accuracy).toBeGreaterThan(0.9);
  });

  test("does not depend on loggingSteps and saveSteps", async () => {
    const [plain, grouped] = [
      await runJob({}, { files: trainingFiles(join(folder, "plain")) }),
      await runJob({ loggingSteps: 7, saveSteps: 3 }, { files: trainingFiles(join(folder, "grouped")) }),
    ];
    expect(grouped.events).toEqual(plain.events);
    expect(grouped.weights).toEqual(plain.weights);
  });

  test("has the same events and weights without checkpoints, and writes none", async () => {
    const settings = { evalSteps: 3, metricForBestModel: "log-loss" } as const;
    const out = join(folder, "unsaved");
    const plain = await runJob(settings, { files: trainingFiles(join(folder, "saved")) });
    const unsaved = await runJob({ ...settings, saveStrategy: "no", saveSteps: 2 }, { files: trainingFiles(out) });
    expect(unsaved.events).toEqual(plain.events);
    expect(unsaved.weights).toEqual(plain.weights);
    expect(unsaved.outcome!.bestStep).toBe(plain.outcome!.bestStep);
    expect(existsSync(join(out, "checkpoints"))).toBe(false);
    expect(readLines(join(out, "events.jsonl"))).toEqual(plain.events);
  });

  test("saves a checkpoint every ten seconds by default, and more rarely if saving takes long", async () => {
    const countCheckpoints = async (secondsPerStep: number, secondsPerRead: number): Promise<number> => {
      let now = performance.now();
      const clock = vi.spyOn(performance, "now");
      const files = trainingFiles(join(folder, `every-${secondsPerStep}-${secondsPerRead}`));
      const onEvent: TrainingJob["onEvent"] = ({ type }) => {
        // The model is loaded with the real clock.
        if (type === "start") clock.mockImplementation(() => (now += secondsPerRead * 1000));
        if (type === "step") now += secondsPerStep * 1000;
      };
      await runJob({ epochs: 8, evalSteps: 96, saveTotalLimit: 100 }, { files, onEvent });
      clock.mockRestore();
      return readdirSync(files.checkpoints).length;
    };
    // 96 steps; the last one is always saved.
    expect(await countCheckpoints(3, 0)).toBe(24);
    expect(await countCheckpoints(0, 0)).toBe(1);
    // Now a save takes a second and a step about six, so every second step would be due without the rule.
    const slowSaves = await countCheckpoints(3, 1);
    expect(slowSaves).toBeGreaterThan(1);
    expect(slowSaves).toBeLessThan(24);
  });

  test("writes durations to the timings, not to the events", async () => {
    const out = join(folder, "logs");
    const { events } = await runJob({}, { files: trainingFiles(out) });
    expect(readLines(join(out, "events.jsonl"))).toEqual(events);
    expect(Object.keys(JSON.parse(events[0]!) as object)).toEqual([
      "step",
      "epoch",
      "learningRate",
      "loss",
      "loss.task",
      "gradientNorm",
    ]);
    const timing = JSON.parse(readLines(join(out, "timings.jsonl"))[0]!) as Record<string, number>;
    expect(timing).toMatchObject({ step: 1, examples: 8 });
    expect(timing.seconds).toBeGreaterThan(0);
    expect(timing.computed).toBeGreaterThanOrEqual(timing.tokens!);
  });
});

describe("model selection", () => {
  /** Few steps per epoch, because only the evaluations count here. */
  const batchSize = 24;

  /** A method whose validation metric has the given values. */
  function createScripted(values: readonly number[]): TrainingMethod {
    let at = 0;
    return { name: "scripted", extraMetrics: async () => ({ scripted: values[at++] ?? 0 }) };
  }

  test("a method declares which of its metrics are better if they are lower", async () => {
    const settings = { epochs: 3, batchSize, metricForBestModel: "scripted" };
    const method = { ...createScripted([0.5, 0.1, 0.9]), lowerIsBetter: ["scripted"] };
    const { outcome } = await runJob(settings, { methods: [method] });
    expect(outcome).toMatchObject({ bestStep: (2 * outcome!.steps) / 3, validation: { scripted: 0.1 } });
  });

  test("a degenerate model is the best one only if all others are degenerate, too", () => {
    const better = (model: [number, string | null], best: [number, string | null]): boolean => {
      const [one, other] = [model, best].map(([value, degeneracy]) => ({ value, degeneracy }));
      return isBetterModel("robust-accuracy", one!, other!, "higher");
    };
    const reason = "it predicts spam for 300 of 300 texts";
    expect(better([0.5, reason], [0.433, null])).toBe(false);
    expect(better([0.433, null], [0.5, reason])).toBe(true);
    expect(better([0.5, reason], [0.4, reason])).toBe(true);
    expect(better([0.5, null], [0.4, null])).toBe(true);
    expect(better([0.4, null], [0.4, null])).toBe(false);
  });

  test("the model has the weights of the best evaluation in the end", async () => {
    const settings = { epochs: 4, batchSize, metricForBestModel: "scripted" };
    const out = join(folder, "best");
    const selected = await runJob(settings, {
      methods: [createScripted([0.1, 0.9, 0.5, 0.2])],
      files: trainingFiles(out),
    });
    const perEpoch = selected.outcome!.steps / 4;
    expect(selected.outcome).toMatchObject({ bestStep: 2 * perEpoch, validation: { scripted: 0.9 } });
    const inMemory = await runJob(settings, { methods: [createScripted([0.1, 0.9, 0.5, 0.2])] });
    expect(inMemory.weights).toEqual(selected.weights);
    const there = await runJob(settings, { methods: [createScripted([0.1, 0.9])], stopAfter: 2 * perEpoch });
    expect(there.weights).toEqual(selected.weights);
    // The best checkpoint and the newest one remain.
    expect(listCheckpoints(out).map((name) => Number(name.slice(5)) / perEpoch)).toEqual([2, 4]);
  });

  test("loadBestModelAtEnd: false keeps the last weights and their validation metrics", async () => {
    const settings = { epochs: 4, batchSize, metricForBestModel: "scripted", loadBestModelAtEnd: false };
    const methods = [createScripted([0.1, 0.9, 0.5, 0.2])];
    const last = await runJob(settings, { methods, files: trainingFiles(join(folder, "last")) });
    expect(last.outcome!.bestStep).toBe(last.outcome!.steps);
    expect(last.outcome!.validation).toMatchObject({ scripted: 0.2 });
    const plain = await runJob(
      { epochs: 4, batchSize, metricForBestModel: "scripted" },
      { methods: [createScripted([0, 0, 0, 1])] },
    );
    expect(last.weights).toEqual(plain.weights);
    const { error } = await runJob({ ...settings, earlyStoppingPatience: 1 }).catch((error: Error) => ({ error }));
    expect(String(error)).toMatch(/earlyStoppingPatience|loadBestModelAtEnd/);
  });

  test("evalEpochs evaluates after these epochs and at the end only", async () => {
    const steps: number[] = [];
    const callbacks = listen({ evaluation: ({ step }) => steps.push(step) });
    const { outcome } = await runJob({ epochs: 5, batchSize, evalEpochs: [2, 4] }, callbacks);
    expect(steps.map((step) => (5 * step) / outcome!.steps)).toEqual([2, 4, 5]);
    expect(() => trainSettingsSchema.parse({ evalEpochs: [2], evalSteps: 3 })).toThrow(/cannot be combined with/);
  });

  test("a lower loss is better", async () => {
    const losses: number[] = [];
    const callbacks = listen({ evaluation: ({ metrics }) => losses.push(metrics["log-loss"]!) });
    const { outcome } = await runJob({ epochs: 8, dropout: false, metricForBestModel: "log-loss" }, callbacks);
    expect(losses).toHaveLength(8);
    expect(outcome!.validation!["log-loss"]).toBe(Math.min(...losses));
    expect(Math.min(...losses)).toBeLessThan(losses[0]!);
  });

  test("earlyStoppingPatience ends a run that no longer improves", async () => {
    const { outcome, events } = await runJob(
      { epochs: 9, batchSize, earlyStoppingPatience: 2, metricForBestModel: "scripted" },
      { methods: [createScripted([0.5, 0.6, 0.6, 0.4, 0.9])] },
    );
    const evaluations = events.filter((line) => line.includes("evaluation"));
    expect(evaluations).toHaveLength(4);
    expect(outcome!.validation!.scripted).toBe(0.6);
  });

  test("evaluations run every evalSteps steps and at the end", async () => {
    const { events, outcome } = await runJob({ epochs: 1, evalSteps: 5 });
    const at = events
      .map((line) => JSON.parse(line) as { step: number; evaluation?: object })
      .flatMap((e) => (e.evaluation ? [e.step] : []));
    expect(outcome!.steps).toBe(12);
    expect(at).toEqual([5, 10, 12]);
  });

  test("an unknown metric is rejected before training", async () => {
    const { error, events } = await runJob({ metricForBestModel: "acuracy" });
    expect(String(error)).toContain(
      'train.metricForBestModel: unknown metric acuracy (did you mean "accuracy"?). ' +
        "Use one of accuracy, f1, macro-f1, balanced-accuracy, matthews, log-loss, calibration-error, " +
        "recall:negative, recall:positive.",
    );
    expect(events).toEqual([]);
  });
});

test("gradientAccumulationSteps groups batches into steps, and the last step can be smaller", async () => {
  const { outcome, events } = await runJob({ epochs: 1, batchSize: 8, gradientAccumulationSteps: 5 });
  // 96 training examples are 12 batches: steps of 5, 5 and 2 batches.
  expect(outcome!.steps).toBe(3);
  expect(events.filter((line) => line.includes("loss.task"))).toHaveLength(3);
});

test("a fraction of an epoch stops within the epoch", async () => {
  expect((await runJob({ epochs: 0.5 })).outcome).toMatchObject({ steps: 6 });
});

describe("divergence", () => {
  /** Multiplies the loss of one batch. */
  function createExploding(at: number, factor = Number.POSITIVE_INFINITY): TrainingMethod {
    const multiply = (loss: Tensor, batchIndex: number): Tensor => (batchIndex === at ? loss.mul(factor) : loss);
    return {
      name: "exploding",
      losses: (context, next) => new Map([...next()].map(([name, loss]) => [name, multiply(loss, context.batchIndex)])),
    };
  }

  test.each([1, 4])(
    "stops at the step and keeps only valid checkpoints, with loggingSteps: %i",
    async (loggingSteps) => {
      const out = join(folder, `diverged-${loggingSteps}`);
      const { error, events } = await runJob(
        { saveSteps: 3, loggingSteps },
        { methods: [createExploding(7)], files: trainingFiles(out) },
      );
      expect(String(error)).toMatch(/Training diverged at step 8 \(loss Infinity.*with a lower train\.learningRate/);
      expect(events).toHaveLength(7);
      expect(listCheckpoints(out)).toEqual(["step-00000003", "step-00000006"]);
    },
  );

  test("a gradient that is not finite stops the run before a checkpoint is spoiled", async () => {
    const out = join(folder, "gradient");
    // The loss is still finite, but the norm of its gradient overflows.
    const { error } = await runJob(
      { saveSteps: 1 },
      { methods: [createExploding(4, 1e38)], files: trainingFiles(out) },
    );
    expect(String(error)).toMatch(/Training diverged at step 5 /);
    expect(listCheckpoints(out).at(-1)).toBe("step-00000004");
  });
});

test.skipIf(process.getuid?.() !== 0)(
  "a full disk ends the run with an error that says so (root can create such a device)",
  async () => {
    const out = join(folder, "full");
    mkdirSync(out);
    // Links are not followed, so the file is the device itself.
    execFileSync("mknod", [join(out, "events.jsonl"), "c", "1", "7"]);
    const { error } = await runJob({}, { files: trainingFiles(out) });
    expect(String(error)).toMatch(/cannot write .*events\.jsonl: the disk is full; free some space and try again/);
  },
);

describe("resume", () => {
  const settings = { saveSteps: 4, evalSteps: 5, epochs: 2 } as const;
  let uninterrupted: Run;
  const copies: string[] = [];

  // A copy of the folder at a random moment is what kill -9 would leave.
  beforeAll(async () => {
    const rng = new Rng("moments");
    const out = join(folder, "uninterrupted");
    const copySometimes = (): void => {
      if (rng.next() > 0.9) return;
      const copy = join(folder, `copy-${copies.length}`);
      cpSync(out, copy, { recursive: true });
      copies.push(copy);
    };
    uninterrupted = await runJob(settings, { files: trainingFiles(out), ...listen({ log: copySometimes }) });
  });

  test("from random moments gives the same events and weights", async () => {
    expect(copies.length).toBeGreaterThanOrEqual(20);
    for (const copy of copies.slice(0, 20).filter((_, i) => i % chooseExtent(6, 1) === 0)) {
      const { error, weights, outcome } = await runJob(settings, { files: trainingFiles(copy), resume: true });
      expect(error).toBeNull();
      expect(outcome).toMatchObject({ steps: uninterrupted.outcome!.steps, bestStep: uninterrupted.outcome!.bestStep });
      expect(readLines(join(copy, "events.jsonl"))).toEqual(uninterrupted.events);
      expect(weights).toEqual(uninterrupted.weights);
    }
  });

  test("uses the previous checkpoint if the newest is damaged, and warns", async () => {
    for (const [name, damage] of Object.entries({
      truncated: (file: string) => writeFileSync(file, readFileSync(file).subarray(0, 900)),
      flipped: (file: string) => {
        const bytes = readFileSync(file);
        bytes[bytes.length - 3]! ^= 1;
        writeFileSync(file, bytes);
      },
      "incomplete state": (file: string) => writeFileSync(join(file, "../state.json"), '{"state": {"step": '),
    })) {
      const copy = join(folder, `damaged-${name}`);
      const last = copies.filter((path) => listCheckpoints(path).length > 1).at(-1)!;
      cpSync(last, copy, { recursive: true });
      const newest = listCheckpoints(copy).at(-1)!;
      damage(join(copy, "checkpoints", newest, "weights.safetensors"));
      const { weights, warnings, error } = await runJob(settings, { files: trainingFiles(copy), resume: true });
      expect(error).toBeNull();
      expect(warnings.join("\n")).toContain(`Ignoring the damaged checkpoint of step ${Number(newest.slice(5))}: `);
      expect(readLines(join(copy, "events.jsonl"))).toEqual(uninterrupted.events);
      expect(weights).toEqual(uninterrupted.weights);
    }
  });

  test("every remaining checkpoint still has its best checkpoint", async () => {
    const out = join(folder, "bests");
    // The last evaluation is the best, so the last two checkpoints have different best ones.
    let evaluations = 0;
    const rising: TrainingMethod = { name: "rising", extraMetrics: async () => ({ rising: ++evaluations }) };
    const changes = { metricForBestModel: "rising", evalSteps: 5, saveSteps: 7, saveTotalLimit: 2 };
    await runJob(changes, { files: trainingFiles(out), methods: [rising] });
    const steps = listCheckpoints(out);
    const readBest = (step: string): string => {
      const text = readFileSync(join(out, "checkpoints", step, "state.json"), "utf8");
      const { state } = JSON.parse(text) as { state: { best: { step: number } } };
      return `step-${String(state.best.step).padStart(8, "0")}`;
    };
    for (const kept of steps.slice(-2)) expect(steps).toContain(readBest(kept));
    expect(readBest(steps.at(-1)!)).not.toBe(readBest(steps.at(-2)!));
  });

  test("starts over if no checkpoint is intact", async () => {
    const copy = join(folder, "none-intact");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    for (const step of listCheckpoints(copy)) writeFileSync(join(copy, "checkpoints", step, "moments.safetensors"), "");
    const { weights } = await runJob(settings, { files: trainingFiles(copy), resume: true });
    expect(readLines(join(copy, "events.jsonl"))).toEqual(uninterrupted.events);
    expect(weights).toEqual(uninterrupted.weights);
  });

  test("removes unfinished checkpoints", async () => {
    const copy = join(folder, "unfinished");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    cpSync(join(copy, "checkpoints", listCheckpoints(copy)[0]!), join(copy, "checkpoints", ".writing-12345"), {
      recursive: true,
    });
    appendFileSync(join(copy, "events.jsonl"), '{"step": 99999, "lo');
    await runJob(settings, { files: trainingFiles(copy), resume: true });
    expect(existsSync(join(copy, "checkpoints", ".writing-12345"))).toBe(false);
    expect(readLines(join(copy, "events.jsonl"))).toEqual(uninterrupted.events);
  });

  test("rejects events that were truncated", async () => {
    const copy = join(folder, "truncated-events");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    writeFileSync(join(copy, "events.jsonl"), "{}\n");
    const { error } = await runJob(settings, { files: trainingFiles(copy), resume: true });
    expect(String(error)).toContain("events.jsonl is shorter than its checkpoint recorded");
  });

  test("an abort saves a checkpoint and stops, also during an evaluation", async () => {
    const out = join(folder, "aborted");
    let aborts = 0;
    for (let resume = false; ; resume = true) {
      const controller = new AbortController();
      let steps = 0;
      const callbacks = listen({
        step: () => ++steps === 4 && controller.abort(),
        // Every second run is stopped during its first evaluation.
        progress: () => aborts % 2 === 0 && controller.abort(),
      });
      const { error, weights } = await runJob(settings, {
        files: trainingFiles(out),
        resume,
        signal: controller.signal,
        ...callbacks,
      });
      if (error === null) {
        expect(weights).toEqual(uninterrupted.weights);
        break;
      }
      expect(error).toBeInstanceOf(Interrupted);
      expect(String(error)).toMatch(/Stopped after step \d+ of \d+\. A checkpoint is saved\./);
      aborts++;
    }
    expect(aborts).toBeGreaterThan(4);
    expect(readLines(join(out, "events.jsonl"))).toEqual(uninterrupted.events);
  });
});
