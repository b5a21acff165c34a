import { Readable } from "node:stream";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { createAttackProgress } from "../../src/cli/commands/attack.js";
import { type Io, type OutputStream, write } from "../../src/cli/io.js";
import { printJson } from "../../src/cli/output.js";
import { createCallbacks, createProgress } from "../../src/cli/progress.js";
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
  test("writes a line soon, every ten seconds and every 10% of the job", () => {
    const { clock, stream, progress } = open({ total: 1000 });
    for (let done = 1; done <= 1000; done++) {
      clock.time += 40;
      progress.update(done);
    }
    progress.end();
    const lines = stream.text.trimEnd().split("\n");
    expect(lines).toHaveLength(12);
    expect(lines[0]).toBe("train: 4%, 38 of 1,000 steps, 25 steps/s, 0:38 left");
    expect(lines[5]).toBe("train: 50%, 500 of 1,000 steps, 25 steps/s, 0:20 left");
    expect(lines[11]).toBe("train: 1,000 steps in 0:40");
    expect(stream.text).not.toContain("\x1b");
  });

  test("writes a line every ten seconds if the total is unknown", () => {
    const { clock, stream, progress } = open({ unit: "bytes" });
    for (let second = 1; second <= 25; second++) {
      clock.time += 1000;
      progress.update(second * 2e6);
    }
    const amounts = [4, 24, 44].map((megabytes) => `train: ${megabytes}.0 MB, 2.0 MB/s\n`);
    expect(stream.text).toBe(amounts.join(""));
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
  const lines = stderr.text.split("\n").filter((line) => line.includes("steps/s"));
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
  const callbacks = createAttackProgress({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, false);
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
  callbacks.end();
  vi.useRealTimers();
});

describe("the first two seconds", () => {
  afterEach(() => vi.useRealTimers());

  /** A command on a stream that is no terminal. */
  function startCommand() {
    vi.useFakeTimers();
    const stderr = memoryStream();
    return { stderr, callbacks: createCallbacks({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, false) };
  }

  test("a command that loads its model says so", () => {
    const { stderr, callbacks } = startCommand();
    vi.advanceTimersByTime(2000);
    expect(stderr.text).toBe("loading the model and the data\n");
    callbacks.end();
  });

  test("a stage without an update is shown", () => {
    const { stderr, callbacks } = startCommand();
    callbacks.start("certify windows", 0, 5, "texts");
    vi.advanceTimersByTime(2000);
    expect(stderr.text).toBe("certify windows: 0%, 0 of 5 texts\n");
    callbacks.end();
    vi.advanceTimersByTime(60_000);
    expect(stderr.text).toBe("certify windows: 0%, 0 of 5 texts\ncertify windows: 0 texts in 0:02\n");
  });

  test("a command that ends earlier prints nothing", () => {
    const { stderr, callbacks } = startCommand();
    callbacks.start("evaluate", 0, 5, "examples");
    vi.advanceTimersByTime(1000);
    callbacks.end();
    vi.advanceTimersByTime(60_000);
    expect(stderr.text).toBe("");
  });
});

test("the ranking of substitutes is a phase of its own, and the attack goes on where it was", () => {
  vi.stubEnv("NO_COLOR", "1");
  vi.useFakeTimers();
  const stderr = memoryStream({ columns: 120 });
  const callbacks = createAttackProgress({ stdin: Readable.from([]), stdout: memoryStream(), stderr }, false);
  callbacks.onAttackStart!("pwws", 0, 80, {
    ...{ queries: 0, queryTokens: 0, evaluations: 0, evaluatedTokens: 0, resources: {} },
  });
  callbacks.onEvent!({ type: "progress", stage: "attack pwws", done: 8, total: 80 });
  for (const done of [500, 1875, 2000]) {
    vi.advanceTimersByTime(1000);
    callbacks.onEvent!({ type: "progress", stage: "rank substitutes", done, total: 2000 });
  }
  vi.advanceTimersByTime(3000);
  callbacks.onEvent!({ type: "progress", stage: "attack pwws", done: 9, total: 80 });
  vi.advanceTimersByTime(3000);
  const frames = stderr.text.split("\r\x1b[2K");
  callbacks.end();
  vi.useRealTimers();
  expect(frames.some((frame) => /^rank substitutes .* 94% {2}1,875 of 2,000 /.test(frame))).toBe(true);
  expect(frames.at(-1)).toMatch(/^attack pwws .* 11% {2}9 of 80 examples/);
  for (const [, percent] of stderr.text.matchAll(/(\d+)%/g)) expect(Number(percent)).toBeLessThanOrEqual(100);
});

test("the time that is left does not grow by a factor, even if one text takes a hundred times as long as another", () => {
  const rng = new Rng("durations");
  // Eight texts at a time. A few take as long as a hundred others.
  const durations = Array.from({ length: 400 }, () => 5000 * Math.exp(rng.normal()));
  const lanes = new Array<number>(8).fill(0);
  const ends = durations.map((duration) => {
    const lane = lanes.indexOf(Math.min(...lanes));
    lanes[lane]! += duration;
    return lanes[lane]!;
  });
  const { clock, stream, progress } = open({ total: 400, unit: "examples" });
  for (const [i, end] of ends.sort((a, b) => a - b).entries()) {
    clock.time = end;
    progress.update(i + 1);
  }
  progress.end();
  const totals = stream.text.split("\n").flatMap((line) => {
    const [, count, left] = /, (\d+) of 400 examples, .* (\S+) left/.exec(line) ?? [];
    if (left === undefined) return [];
    const seconds = left.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
    return [ends[Number(count) - 1]! / 1000 + seconds];
  });
  expect(totals.length).toBeGreaterThan(10);
  expect(Math.max(...totals) / totals[0]!).toBeLessThan(2);
  // Four texts are too few for any estimate.
  const few = open({ total: 4, unit: "examples" });
  for (let done = 1; done < 4; done++) {
    few.clock.time = 10_000 * done;
    few.progress.update(done);
  }
  expect(few.stream.text).toContain("3 of 4 examples");
  expect(few.stream.text).not.toContain("left");
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

test("a stage counts what its event names", () => {
  vi.useFakeTimers({ toFake: ["performance", "setInterval", "setTimeout"] });
  const [stdout, stderr] = [memoryStream(), memoryStream()];
  const callbacks = createCallbacks({ stdin: Readable.from([]), stdout, stderr, silence: 0 }, false);
  const event = { type: "progress", stage: "measure", done: 1, total: 2 } as const;
  callbacks.onEvent({ ...event, unit: "models" });
  callbacks.end();
  callbacks.onEvent(event);
  callbacks.end();
  vi.useRealTimers();
  expect(stderr.text).toContain("measure: 50%, 1 of 2 models");
  expect(stderr.text).toContain("measure: 50%, 1 of 2 examples");
});
