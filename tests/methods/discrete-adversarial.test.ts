import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { estimateRun } from "../../src/actions/train/estimate-run.js";
import { train as trainRun } from "../../src/actions/train/train.js";
import { listen } from "../../src/base/events.js";
import { createMethods } from "../../src/methods/index.js";
import { free, scope, tensor } from "../../src/tensor/index.js";
import { type FindAdversarialTexts, Interrupted, train } from "../../src/train/index.js";
import { writeMaskedLm } from "../actions/substitutions/masked-lm.js";
import { computeLogits } from "../models/tiny.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { tinyJob, tinyModel } from "./tiny.js";
import { expectResumed } from "./train-tiny.js";

const folder = temporaryFolder();

test.each([
  ["cross-entropy", {}, () => 1],
  ["weighted cross-entropy", { classWeights: { b: 3 } }, (label: number) => (label === 1 ? 3 : 1)],
] as const)("adds the %s of the texts that fooled the model at the last attack", async (_, settings, weigh) => {
  const model = tinyModel();
  const requests: Parameters<FindAdversarialTexts>[0][] = [];
  const losses: Record<string, unknown>[] = [];
  const expected: number[] = [];
  const job = tinyJob(
    model,
    createMethods([{ name: "discrete-adversarial", options: { interval: 2, fraction: 1, alpha: 0.5 } }]),
    {},
    { dropout: false, batchSize: 12, epochs: 4, ...settings },
  );
  const attackTexts: typeof job.attackTexts = async (request) => {
    requests.push(request);
    // A request without examples checks the attack before training.
    if (request.examples.length === 0) return [];
    const texts = await job.attackTexts!(request);
    // All texts are one batch, so the next loss has these weights and these texts.
    const changed = request.examples.flatMap((example, i) => (texts[i] ? [{ ...example, texts: texts[i]! }] : []));
    expected.push(
      scope(() => {
        const logits = computeLogits(
          model,
          changed.map((example) => example.texts),
        );
        const values = tensor(logits, [changed.length, 3]).logSoftmax(-1).toFloat32Array();
        const sum = changed.reduce((total, { label }, i) => total - weigh(label) * values[3 * i + label]!, 0);
        return (0.5 * sum) / request.examples.length;
      }),
    );
    return texts;
  };
  await train({ ...job, attackTexts, ...listen({ log: ({ entry }) => losses.push(entry) }) });
  free(model.weights);
  expect(requests.map(({ examples }) => examples.length)).toEqual([0, 12]);
  expect(requests[1]).toMatchObject({ attack: "pwws", maskedLm: null, maxQueries: null, precision: "auto" });
  expect(losses.map((event) => "loss.attacked" in event)).toEqual([false, false, true, true]);
  expectClose(losses[2]!["loss.attacked"] as number, expected[0]!, { terms: 400 }); // a pass through the model
  const fooled = requests[1]!.examples.filter(({ texts }) => texts[0]!.includes(" ")).length;
  expectClose(losses[2]!["discrete-adversarial.fraction"] as number, fooled / 12);
});

test.each([1, 2, 3])(
  "a run that stops after step %i continues bitwise, with the texts of its checkpoint",
  async (stop) => {
    await expectResumed(folder, [["discrete-adversarial", { interval: 2, fraction: 0.5 }]], stop);
  },
);

test("runs a real attack on the model of a run, and a stopped run continues bitwise", async () => {
  const substitutions = join(folder, "table.json");
  // Words of the other class, so that the attack succeeds.
  const swaps = { good: ["bad"], fine: ["dull"], bright: ["grey"], bad: ["good"], dull: ["fine"], cold: ["warm"] };
  writeFileSync(substitutions, JSON.stringify(swaps));
  const options = { interval: 80, fraction: 0.5, precision: "fp32", maxQueries: 20 };
  const methods = [{ name: "discrete-adversarial", options }];
  const config = await tinyRun(folder, { substitutions, methods, train: { epochs: 10, evalSteps: 200 } });
  const stages = new Set<string>();
  const whole = await trainRun(
    { ...config, out: join(folder, "real") },
    listen({ progress: ({ stage }) => stages.add(stage) }),
  );
  expect(stages).toContain("attack pwws");
  const events = await whole.events();
  expect(events.some((event) => (event["discrete-adversarial.fraction"] as number) > 0)).toBe(true);
  const stop = new AbortController();
  const callbacks = { ...listen({ step: ({ step }) => step === 90 && stop.abort() }), signal: stop.signal };
  const out = join(folder, "stopped-real");
  await expect(trainRun({ ...config, out }, callbacks)).rejects.toThrow(Interrupted);
  const resumed = await trainRun({ ...config, out, resume: true });
  expect((await resumed.results())?.test).toEqual((await whole.results())?.test);
  const readLosses = (list: readonly Record<string, unknown>[]) => list.map((event) => event.loss);
  expect(readLosses(await resumed.events())).toEqual(readLosses(events));
});

test("an attack with a masked language model runs while a model trains", async () => {
  const maskedLm = await writeMaskedLm(join(folder, "masked-lm"));
  const options = { attack: "bae:similarity=-1", maskedLm, interval: 4, fraction: 0.05, maxQueries: 5 };
  const methods = [{ name: "discrete-adversarial", options }];
  const config = await tinyRun(join(folder, "bae"), { methods, train: { epochs: 0.5, batchSize: 8 } });
  const stages = new Set<string>();
  const callbacks = listen({ progress: ({ stage }) => stages.add(stage) });
  await trainRun({ ...config, out: join(folder, "bae/run") }, callbacks);
  expect(stages).toContain("attack bae:similarity=-1");
});

test.each([
  [{ attack: "pws" }, 'did you mean "pwws"'],
  [{ attack: "bert-attack" }, "needs a masked language model. Set maskedLm, such as --method discrete-adversarial:"],
  [{ attack: "clare", maskedLm: "./missing" }, "maskedLm: "],
  [{ attack: "input-reduction" }, "its texts keep their predictions, so they do not fool the model"],
])("%o is rejected before the first step, also by an estimate", async (options, message) => {
  const methods = [{ name: "discrete-adversarial", options }];
  const config = await tinyRun(join(folder, "rejected"), { methods });
  await expect(estimateRun(config)).rejects.toThrow(message);
  const starts: number[] = [];
  const callbacks = listen({ start: ({ step }) => starts.push(step) });
  await expect(trainRun({ ...config, out: join(folder, "rejected/run") }, callbacks)).rejects.toThrow(message);
  expect(starts).toEqual([]);
});
