import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { RunConfig } from "../../src/runs/config.js";
import { createTrainingJob, prepareRun } from "../../src/runs/prepare-run.js";
import { free, getMemoryStats, Rng, type Tensor } from "../../src/tensor/index.js";
import { Interrupted, type TrainingJob, type TrainingMethod, type TrainResult, train } from "../../src/train/index.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
let base: RunConfig;

beforeAll(async () => {
  base = await tinyRun(folder);
});

interface Run {
  outcome: TrainResult | null;
  error: unknown;
  events: string[];
  notices: string[];
  weights: Map<string, Float32Array>;
}

/** Runs a job to its end or failure. */
async function runJob(
  changes: Partial<RunConfig["train"]> & { seed?: number } = {},
  rest: Partial<TrainingJob> = {},
): Promise<Run> {
  const { seed = 0, ...settings } = changes;
  const opened = await prepareRun({ ...base, seed, train: { ...base.train, ...settings } }, () => undefined);
  const events: string[] = [];
  const notices: string[] = [];
  const watch = {
    ...rest.callbacks,
    onEvent(event: Record<string, unknown>) {
      events.push(JSON.stringify(event));
      rest.callbacks?.onEvent?.(event);
    },
    onWarning: (message: string) => void notices.push(message),
  };
  let [outcome, error]: [TrainResult | null, unknown] = [null, null];
  try {
    outcome = await train(createTrainingJob(opened, { folder: null, resume: false, ...rest, callbacks: watch }));
  } catch (thrown) {
    error = thrown;
  }
  const weights = new Map(
    [...opened.model.weights].map(([name, tensor]): [string, Float32Array] => [name, tensor.toFloat32Array()]),
  );
  free(opened.model.weights);
  return { outcome, error, events, notices, weights };
}

const linesOf = (path: string): string[] => readFileSync(path, "utf8").trim().split("\n");
const stepsIn = (path: string): string[] => readdirSync(join(path, "checkpoints")).sort();

test("a head can be trained alone, with a rate of its own", async () => {
  const start = await runJob({}, { maxSteps: 0 });
  const probed = await runJob({ learningRate: 0, headLearningRate: 1e-2, weightDecay: 0 });
  for (const [name, values] of start.weights) {
    if (name.startsWith("classifier")) expect(probed.weights.get(name), name).not.toEqual(values);
    else expect(probed.weights.get(name), name).toEqual(values);
  }
});

describe("what decides a run", () => {
  test("the same seed gives the same events and weights, another seed others", async () => {
    const [first, again, other] = [await runJob(), await runJob(), await runJob({ seed: 1 })];
    expect(first.events.length).toBeGreaterThan(10);
    expect(again.events).toEqual(first.events);
    expect(again.weights).toEqual(first.weights);
    expect(other.events[0]).not.toEqual(first.events[0]);
    expect(other.weights).not.toEqual(first.weights);
  });

  test("it learns what can be learned", async () => {
    const { outcome } = await runJob({ epochs: 12, dropout: false });
    expect(outcome!.validation!.accuracy).toBeGreaterThan(0.9);
  });

  test("how events are gathered and checkpoints are made changes nothing", async () => {
    const [plain, gathered] = [
      await runJob({}, { folder: join(folder, "plain") }),
      await runJob({ loggingSteps: 7, saveSteps: 3 }, { folder: join(folder, "gathered") }),
    ];
    expect(gathered.events).toEqual(plain.events);
    expect(gathered.weights).toEqual(plain.weights);
  });

  test("events hold nothing that depends on time, timings hold it", async () => {
    const out = join(folder, "logs");
    const { events } = await runJob({}, { folder: out });
    expect(linesOf(join(out, "events.jsonl"))).toEqual(events);
    expect(Object.keys(JSON.parse(events[0]!) as object)).toEqual([
      "step",
      "epoch",
      "rate",
      "loss",
      "loss.task",
      "gradientNorm",
    ]);
    const timing = JSON.parse(linesOf(join(out, "timings.jsonl"))[0]!) as Record<string, number>;
    expect(timing).toMatchObject({ step: 1, examples: 8 });
    expect(timing.seconds).toBeGreaterThan(0);
    expect(timing.computed).toBeGreaterThanOrEqual(timing.tokens!);
  });
});

describe("choosing", () => {
  /** A layer whose dev metric says what the test wants at each evaluation. */
  function scripted(values: readonly number[]): TrainingMethod {
    let at = 0;
    return { name: "scripted", extraMetrics: async () => ({ scripted: values[at++] ?? 0 }) };
  }

  test("the best evaluation's weights are the model's in the end", async () => {
    const settings = { epochs: 4, metricForBestModel: "scripted" };
    const out = join(folder, "best");
    const chosen = await runJob(settings, { methods: [scripted([0.1, 0.9, 0.5, 0.2])], folder: out });
    const perEpoch = chosen.outcome!.steps / 4;
    expect(chosen.outcome).toMatchObject({ bestStep: 2 * perEpoch, validation: { scripted: 0.9 } });
    const inMemory = await runJob(settings, { methods: [scripted([0.1, 0.9, 0.5, 0.2])] });
    expect(inMemory.weights).toEqual(chosen.weights);
    const there = await runJob(settings, { methods: [scripted([0.1, 0.9])], maxSteps: 2 * perEpoch });
    expect(there.weights).toEqual(chosen.weights);
    // The best stays beside the newest two; others are gone.
    expect(stepsIn(out).map((name) => Number(name.slice(5)) / perEpoch)).toEqual([2, 4]);
  });

  test("a loss is better when it falls", async () => {
    const { outcome } = await runJob({ epochs: 8, dropout: false, metricForBestModel: "log-loss" });
    expect(outcome!.validation!["log-loss"]).toBeLessThan(0.4);
  });

  test("patience ends a run that no longer gets better", async () => {
    const { outcome, events } = await runJob(
      { epochs: 9, earlyStoppingPatience: 2, metricForBestModel: "scripted" },
      { methods: [scripted([0.5, 0.6, 0.6, 0.4, 0.9])] },
    );
    const evaluations = events.filter((line) => line.includes("evaluation"));
    expect(evaluations).toHaveLength(4);
    expect(outcome!.epochs).toBe(4);
    expect(outcome!.validation!.scripted).toBe(0.6);
  });

  test("evaluations come every so many steps, and at the end", async () => {
    const { events, outcome } = await runJob({ epochs: 1, evalSteps: 5 });
    const at = events
      .map((line) => JSON.parse(line) as { step: number; evaluation?: object })
      .flatMap((e) => (e.evaluation ? [e.step] : []));
    expect(outcome!.steps).toBe(12);
    expect(at).toEqual([5, 10, 12]);
  });

  test("a metric that is not there is refused before training", async () => {
    const { error, events } = await runJob({ metricForBestModel: "acuracy" });
    expect(String(error)).toContain(
      'train.metricForBestModel: expected one of accuracy, f1, macro-f1, matthews, log-loss, calibration-error, received acuracy (did you mean "accuracy"?)',
    );
    expect(events).toEqual([]);
  });
});

test("accumulation counts batches into updates, a short last one too", async () => {
  const { outcome, events } = await runJob({ epochs: 1, batchSize: 8, gradientAccumulationSteps: 5 });
  // 96 training examples are 12 batches: updates of 5, 5 and 2.
  expect(outcome!.steps).toBe(3);
  expect(events.filter((line) => line.includes("loss.task"))).toHaveLength(3);
});

test("a fraction of an epoch ends in the middle of it", async () => {
  expect((await runJob({ epochs: 0.5 })).outcome).toMatchObject({ steps: 6, epochs: 0 });
});

test("no step leaves a tensor behind", async () => {
  const living: number[] = [];
  const before = getMemoryStats().tensors;
  await runJob(
    { loggingSteps: 1 },
    { validation: null, callbacks: { onStep: () => void living.push(getMemoryStats().tensors) } },
  );
  expect(new Set(living).size).toBe(1);
  expect(getMemoryStats().tensors).toBe(before);
});

describe("divergence", () => {
  /** Multiplies the loss so that it overflows at one step. */
  function exploding(at: number, factor = Number.POSITIVE_INFINITY): TrainingMethod {
    const spoil = (loss: Tensor, number: number): Tensor => (number === at ? loss.mul(factor) : loss);
    return {
      name: "exploding",
      losses: (step, next) => new Map([...next()].map(([name, loss]) => [name, spoil(loss, step.batchIndex)])),
    };
  }

  test.each([1, 4])(
    "stops at the step, with events gathered by %i, and keeps good checkpoints only",
    async (loggingSteps) => {
      const out = join(folder, `diverged-${loggingSteps}`);
      const { error, events } = await runJob(
        { saveSteps: 3, loggingSteps: loggingSteps },
        { methods: [exploding(7)], folder: out },
      );
      expect(String(error)).toMatch(/training diverged at step 8: loss Infinity.*Try a lower train\.learningRate/);
      expect(events).toHaveLength(7);
      expect(stepsIn(out)).toEqual(["step-00000003", "step-00000006"]);
    },
  );

  test("a gradient that is no number stops before it spoils a checkpoint", async () => {
    const out = join(folder, "gradient");
    // The loss is still finite here; the norm of its gradient overflows.
    const layer: TrainingMethod = {
      name: "steep",
      losses: (step, next) =>
        new Map([...next()].map(([name, loss]) => [name, step.batchIndex === 4 ? loss.mul(1e38) : loss])),
    };
    const { error } = await runJob({ saveSteps: 1 }, { methods: [layer], folder: out });
    expect(String(error)).toMatch(/training diverged at step 5: /);
    expect(stepsIn(out).at(-1)).toBe("step-00000004");
  });
});

test.skipIf(!existsSync("/dev/full"))(
  "a disk that fills up ends the run with a word about it (needs /dev/full)",
  async () => {
    const out = join(folder, "full");
    mkdirSync(out);
    symlinkSync("/dev/full", join(out, "events.jsonl"));
    const { error } = await runJob({}, { folder: out });
    expect(String(error)).toMatch(/cannot write .*events\.jsonl: the disk is full; free some space and try again/);
  },
);

describe("resuming", () => {
  const settings = { saveSteps: 4, evalSteps: 5, epochs: 2 } as const;
  let whole: Run;
  const copies: string[] = [];

  // Copies of the folder at random moments are what kill -9 would have left there.
  beforeAll(async () => {
    const rng = new Rng("moments");
    const out = join(folder, "whole");
    const copyNowAndThen = (): void => {
      if (rng.next() > 0.9) return;
      const copy = join(folder, `copy-${copies.length}`);
      cpSync(out, copy, { recursive: true });
      copies.push(copy);
    };
    whole = await runJob(settings, { folder: out, callbacks: { onEvent: copyNowAndThen } });
  });

  test("from 20 random moments: the same events, the same weights", async () => {
    expect(copies.length).toBeGreaterThanOrEqual(20);
    for (const copy of copies.slice(0, 20)) {
      const { error, weights, outcome } = await runJob(settings, { folder: copy, resume: true });
      expect(error).toBeNull();
      expect(outcome).toMatchObject({ steps: whole.outcome!.steps, bestStep: whole.outcome!.bestStep });
      expect(linesOf(join(copy, "events.jsonl"))).toEqual(whole.events);
      expect(weights).toEqual(whole.weights);
    }
  });

  test("a damaged checkpoint is named, the one before is used, and the damaged one written again", async () => {
    for (const [name, damage] of Object.entries({
      cut: (file: string) => writeFileSync(file, readFileSync(file).subarray(0, 900)),
      flipped: (file: string) => {
        const bytes = readFileSync(file);
        bytes[bytes.length - 3]! ^= 1;
        writeFileSync(file, bytes);
      },
      "half a state": (file: string) => writeFileSync(join(file, "../state.json"), '{"state": {"step": '),
    })) {
      const copy = join(folder, `damaged-${name}`);
      const last = copies.filter((path) => stepsIn(path).length > 1).at(-1)!;
      cpSync(last, copy, { recursive: true });
      const newest = stepsIn(copy).at(-1)!;
      damage(join(copy, "checkpoints", newest, "weights.safetensors"));
      const { weights, notices, error } = await runJob(settings, { folder: copy, resume: true });
      expect(error).toBeNull();
      expect(notices.join("\n")).toContain(
        `the checkpoint of step ${Number(newest.slice(5))} is damaged and not used: `,
      );
      expect(linesOf(join(copy, "events.jsonl"))).toEqual(whole.events);
      expect(weights).toEqual(whole.weights);
    }
  });

  test("every kept checkpoint keeps the best that it names: each alone is enough to go on", async () => {
    const own = join(folder, "bests");
    // The last evaluation is the best, so at the end the checkpoint before it names another.
    let evaluations = 0;
    const rising: TrainingMethod = { name: "rising", extraMetrics: async () => ({ rising: ++evaluations }) };
    const opened = await prepareRun(base, () => undefined);
    const more = { folder: own, resume: false, methods: [rising] };
    const changed = { ...base.train, metricForBestModel: "rising", evalSteps: 5, saveSteps: 7, saveTotalLimit: 2 };
    await train(createTrainingJob({ ...opened, config: { ...opened.config, train: changed } }, more));
    free(opened.model.weights);
    const steps = stepsIn(own);
    const bestOf = (step: string): string => {
      const text = readFileSync(join(own, "checkpoints", step, "state.json"), "utf8");
      const { state } = JSON.parse(text) as { state: { best: { step: number } } };
      return `step-${String(state.best.step).padStart(8, "0")}`;
    };
    for (const kept of steps.slice(-2)) expect(steps).toContain(bestOf(kept));
    expect(bestOf(steps.at(-1)!)).not.toBe(bestOf(steps.at(-2)!));
  });

  test("no checkpoint that is whole: from the beginning", async () => {
    const copy = join(folder, "none-whole");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    for (const step of stepsIn(copy)) writeFileSync(join(copy, "checkpoints", step, "moments.safetensors"), "");
    const { weights } = await runJob(settings, { folder: copy, resume: true });
    expect(linesOf(join(copy, "events.jsonl"))).toEqual(whole.events);
    expect(weights).toEqual(whole.weights);
  });

  test("what was left half-written goes", async () => {
    const copy = join(folder, "half-written");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    cpSync(join(copy, "checkpoints", stepsIn(copy)[0]!), join(copy, "checkpoints", ".writing-12345"), {
      recursive: true,
    });
    appendFileSync(join(copy, "events.jsonl"), '{"step": 99999, "lo');
    await runJob(settings, { folder: copy, resume: true });
    expect(existsSync(join(copy, "checkpoints", ".writing-12345"))).toBe(false);
    expect(linesOf(join(copy, "events.jsonl"))).toEqual(whole.events);
  });

  test("events that someone cut are not taken for the run's", async () => {
    const copy = join(folder, "cut-events");
    cpSync(copies.at(-1)!, copy, { recursive: true });
    writeFileSync(join(copy, "events.jsonl"), "{}\n");
    const { error } = await runJob(settings, { folder: copy, resume: true });
    expect(String(error)).toContain("events.jsonl is shorter than the checkpoint says");
  });

  test("an abort saves and stops, in the middle of an evaluation too", async () => {
    const out = join(folder, "aborted");
    let aborts = 0;
    for (let resume = false; ; resume = true) {
      const controller = new AbortController();
      let steps = 0;
      const watch = {
        onStep: () => void (++steps === 4 && controller.abort()),
        // The first evaluation of every second process is cut off.
        onProgress: () => void (aborts % 2 === 0 && controller.abort()),
      };
      const { error, weights } = await runJob(settings, {
        folder: out,
        resume,
        signal: controller.signal,
        callbacks: watch,
      });
      if (error === null) {
        expect(weights).toEqual(whole.weights);
        break;
      }
      expect(error).toBeInstanceOf(Interrupted);
      expect(String(error)).toMatch(/stopped after step \d+ of \d+; all of it is saved/);
      aborts++;
    }
    expect(aborts).toBeGreaterThan(4);
    expect(linesOf(join(out, "events.jsonl"))).toEqual(whole.events);
  });
});
