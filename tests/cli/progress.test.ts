import { Readable } from "node:stream";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createAttackProgress } from "../../src/cli/commands/attack.js";
import { type Io, type OutputStream, write } from "../../src/cli/io.js";
import { printJson } from "../../src/cli/output.js";
import { createProgress } from "../../src/cli/progress.js";
import { createSweepProgress } from "../../src/cli/sweep-progress.js";
import { createTrainProgress } from "../../src/cli/train-progress.js";
import { invoke, memoryStream } from "./invoke.js";

afterEach(() => vi.unstubAllEnvs());

function open(options: {
  terminal?: { columns: number };
  total?: number;
  quiet?: boolean;
  start?: number;
  unit?: string;
}) {
  const clock = { time: 0 };
  const stream = memoryStream(options.terminal);
  const { total, quiet, start = 0, unit = "steps" } = options;
  const progress = createProgress({ label: "train", total, unit, start, quiet, stream, now: () => clock.time });
  return { clock, stream, progress };
}

describe("on a terminal", () => {
  test("redraws one line at most ten times per second and ends with a summary", () => {
    vi.stubEnv("NO_COLOR", "1");
    const { clock, stream, progress } = open({ terminal: { columns: 100 }, total: 1000 });
    for (let done = 1; done <= 1000; done++) {
      clock.time += 10;
      progress.update(done, { loss: 0.31234 });
    }
    const frames = stream.text.split("\r\x1b[2K").slice(1);
    expect(frames.length).toBeGreaterThan(90);
    expect(frames.length).toBeLessThanOrEqual(100);
    expect(frames[45]).toBe(
      "train  ━━━━━━━━━━━━────────────  50%  500 of 1,000 steps  100 steps/s  0:05 left  loss 0.3123",
    );
    progress.end();
    expect(stream.text.endsWith("\r\x1b[2Ktrain: 1,000 steps in 0:10\n")).toBe(true);
  });

  test("never wraps, and prints other lines above the bar", () => {
    vi.stubEnv("NO_COLOR", "1");
    const { clock, stream, progress } = open({ terminal: { columns: 50 }, total: 10 });
    clock.time = 1000;
    progress.update(5, { accuracy: 0.912, loss: 0.1 });
    progress.printLine("saved");
    const frames = stream.text.split("\r\x1b[2K");
    for (const frame of frames) expect(frame.length).toBeLessThan(50);
    expect(frames.slice(2)).toEqual(["saved\n", frames[1]]);
  });

  test("shows nothing for a short job, and colors only without NO_COLOR", () => {
    const { clock, stream, progress } = open({ terminal: { columns: 80 }, total: 2 });
    progress.update(1);
    clock.time = 400;
    progress.update(2);
    progress.end();
    expect(stream.text).toBe("");
    vi.stubEnv("NO_COLOR", "");
    vi.stubEnv("TERM", "xterm");
    const colored = open({ terminal: { columns: 80 }, total: 2 });
    colored.clock.time = 600;
    colored.progress.update(1);
    expect(colored.stream.text).toContain("\x1b[36m");
  });
});

describe("in a log", () => {
  test("writes a line every ten seconds and every 10% of the job", () => {
    const { clock, stream, progress } = open({ total: 1000 });
    for (let done = 1; done <= 1000; done++) {
      clock.time += 40;
      progress.update(done);
    }
    progress.end();
    const lines = stream.text.trimEnd().split("\n");
    expect(lines).toHaveLength(11);
    expect(lines[4]).toBe("train: 50%, 500 of 1,000 steps, 25 steps/s, 0:20 left");
    expect(lines[10]).toBe("train: 1,000 steps in 0:40");
    expect(stream.text).not.toContain("\x1b");
  });

  test("writes a line every ten seconds if the total is unknown", () => {
    const { clock, stream, progress } = open({ unit: "bytes" });
    for (let second = 1; second <= 25; second++) {
      clock.time += 1000;
      progress.update(second * 2e6);
    }
    expect(stream.text).toBe("train: 20.0 MB, 2.0 MB/s\ntrain: 40.0 MB, 2.0 MB/s\n");
  });

  test("work done before a resume does not count towards the speed", () => {
    const { clock, stream, progress } = open({ total: 1000, start: 900 });
    clock.time = 10_000;
    progress.update(950);
    expect(stream.text).toBe("train: 95%, 950 of 1,000 steps, 5 steps/s, 0:10 left\n");
  });
});

test("--quiet prints nothing", () => {
  const { clock, stream, progress } = open({ total: 10, quiet: true });
  clock.time = 60_000;
  progress.update(5);
  progress.printLine("saved");
  progress.end();
  expect(stream.text).toBe("");
});

test("each pass over the same examples is timed separately", () => {
  const clock = vi.spyOn(performance, "now");
  const stderr = memoryStream();
  const { onEvent } = createTrainProgress({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, {});
  for (const start of [0, 1_000_000]) {
    for (let done = 1; done <= 10; done++) {
      clock.mockReturnValue(start + 3000 * done);
      onEvent({ type: "progress", stage: "robust accuracy", done, total: 10 });
    }
  }
  clock.mockRestore();
  const rates = [...stderr.text.matchAll(/([\d.]+) examples\/s/g)].map(([, rate]) => Number(rate));
  expect(rates.length).toBeGreaterThan(10);
  for (const rate of rates) expect(rate).toBeLessThan(1);
  for (const rate of rates) expect(rate).toBeGreaterThan(0.2);
});

test("a training shows no loss before the first one is read from the device", () => {
  const clock = vi.spyOn(performance, "now");
  const stderr = memoryStream();
  const { onEvent } = createTrainProgress({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, {});
  clock.mockReturnValue(0);
  onEvent({ type: "start", step: 0, totalSteps: 4, parameters: 1 });
  for (const [i, loss] of [Number.NaN, 0.5].entries()) {
    clock.mockReturnValue(20_000 * (i + 1));
    onEvent({ type: "step", step: i + 1, totalSteps: 4, epoch: 0, examples: 8, seconds: 1, loss, learningRate: 1e-4 });
  }
  clock.mockRestore();
  const lines = stderr.text.split("\n").filter((line) => line.includes("examples/s"));
  expect(lines.map((line) => line.includes("loss"))).toEqual([false, true]);
});

test("control characters of labels and texts do not reach the terminal", async () => {
  let written = "";
  const out = {
    write(text: string) {
      written += text;
      return true;
    },
  } as unknown as OutputStream;
  await write(out, "a\x1b]0;title\x07b\x1b[2Jc\x9bd\x1b[31mred\x1b[0m\n\t");
  expect(written).toBe("a\ufffd]0;title\ufffdb\ufffd[2Jc\ufffdd\x1b[31mred\x1b[0m\n\t");
  written = "";
  const label = "x\x1b[2J\x7f\x9b";
  await printJson({ stdout: out } as unknown as Io, { label });
  expect(JSON.parse(written)).toEqual({ label });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
  expect(written).not.toMatch(/[\x1b\x7f-\x9f]/);
  const { stderr } = await invoke(["evaluate", "none", "--data", "\x1b[2Jnone.csv"]);
  expect(stderr).not.toContain("\x1b");
});

test("the progress of an attack counts scored texts before the first example is finished", () => {
  vi.stubEnv("NO_COLOR", "1");
  vi.useFakeTimers();
  const stderr = memoryStream({ columns: 120 });
  const { callbacks, end } = createAttackProgress({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, false);
  const counters = { queries: 120, queryTokens: 0, evaluations: 100, evaluatedTokens: 0, resources: {} };
  callbacks.onAttackStart!("genetic", 0, 40, counters);
  const frames: string[] = [];
  for (const evaluations of [350, 900]) {
    counters.evaluations = evaluations;
    vi.advanceTimersByTime(1000);
    frames.push(stderr.text.split("\r\x1b[2K").at(-1)!);
  }
  expect(frames[0]).toMatch(/0 of 40 examples .*texts 250 /);
  expect(frames[1]).toMatch(/0 of 40 examples .*texts 800 /);
  callbacks.onEvent!({ type: "progress", stage: "attack genetic", done: 1, total: 40 });
  end();
  vi.useRealTimers();
});

test("the progress of a sweep counts finished runs only", () => {
  const stderr = memoryStream();
  const io = { stdin: Readable.from([]), stdout: memoryStream(), stderr };
  const progress = createSweepProgress(io, "nowhere", false);
  const items = ["a", "b", "c"].map((run) => ({ kind: "train" as const, run }));
  progress.onEvent({ type: "phase", phase: { kind: "train", items }, done: 0 });
  const failed = { state: "failed", error: "The disk is full.", command: "", log: "" } as const;
  progress.onEvent({ type: "item-end", item: items[0]!, result: failed });
  progress.onEvent({ type: "item-end", item: items[1]!, result: { state: "interrupted" } });
  progress.end();
  expect(stderr.text).toContain("a failed: The disk is full.");
  expect(stderr.text).not.toMatch(/[123] ?(of|\/) ?3/);
});
