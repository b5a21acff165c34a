import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { UserError } from "../../../src/base/errors.js";
import { createMethods, methods } from "../../../src/methods/index.js";
import { computeNorms, computeTensorMask } from "../../../src/methods/rose/mask.js";
import { crossEntropy } from "../../../src/nn/index.js";
import { free, getMemoryStats, type Tensor, tensor } from "../../../src/tensor/index.js";
import { toHostBatch } from "../../../src/train/batch-transfer.js";
import type { NamedTensors, TrainingMethod } from "../../../src/train/index.js";
import { createStepRunner } from "../../../src/train/step-runner.js";
import { createTrainingContext } from "../../../src/train/training-context.js";
import { chooseExtent } from "../../extent.js";
import { temporaryFolder } from "../../temporary.js";
import { trainingFiles } from "../../train/training-files.js";
import { tinyJob, tinyModel } from "../tiny.js";
import { trainTiny } from "../train-tiny.js";

/** Methods that replace the examples take no part in a step. */
const names = [...methods.keys()].filter((name) => !methods.get(name)!.certificate);
const pairs = names.flatMap((inner) => names.map((outer) => [inner, outer] as const));

/** Pairs of methods that are rejected, with the reason. All other pairs can be combined. */
const rejections: readonly { readonly pair: readonly [string, string]; readonly reason: RegExp }[] = [
  ...pairs.filter(([inner, outer]) => inner === outer).map((pair) => ({ pair, reason: /listed twice/ })),
  ...selectPairs(["ascc", "smart", "freelb", "discrete-adversarial"]).map((pair) => ({
    pair,
    reason: /cannot be combined with .*search/,
  })),
  ...selectPairs(["rose", "child-tuning"]).map((pair) => ({
    pair,
    reason: /cannot be combined with .*which parameters/,
  })),
  ...["ptwd", "child-tuning"].flatMap((other) =>
    selectPairs(["lora", other]).map((pair) => ({ pair, reason: /all weights of the/ })),
  ),
  { pair: ["mixout", "lora"], reason: /List lora before mixout/ },
  { pair: ["rose", "freelb"], reason: /List freelb before rose/ },
];

/** The pairs of different methods among these. */
function selectPairs(chosen: readonly string[]): (typeof pairs)[number][] {
  return pairs.filter(([inner, outer]) => inner !== outer && chosen.includes(inner) && chosen.includes(outer));
}

const findRejection = (inner: string, outer: string): RegExp | undefined =>
  rejections.find(({ pair }) => pair[0] === inner && pair[1] === outer)?.reason;

/** Cheaper options than the defaults, which are for real models. */
const options: Record<string, Record<string, unknown>> = {
  ascc: { innerSteps: 2 },
  rift: { projectionHiddenSize: 8, projectionSize: 4 },
  lora: { rank: 2 },
  "discrete-adversarial": { interval: 1 },
  mof: { interval: 1, benignLabel: "c" },
};

const create = (...chosen: readonly string[]): TrainingMethod[] =>
  createMethods(chosen.map((name) => ({ name, options: options[name] ?? {} })));

const root = temporaryFolder();
// RIFT caches its teacher features here.
vi.stubEnv("TEMPER_CACHE", join(root, "cache"));

/**
 * Trains two steps, optionally with an interruption after the first. Returns events and weights.
 */
async function trainTwoSteps(
  chosen: readonly string[],
  folder: string,
  interrupt: boolean,
): Promise<{ events: string; weights: object }> {
  const run = (changes: object) =>
    trainTiny(create(...chosen), { batchSize: 6, epochs: 1 }, { files: trainingFiles(folder), ...changes });
  if (interrupt) await run({ stopAfter: 1 });
  const { weights } = await run({ resume: interrupt });
  return { weights, events: readFileSync(join(folder, "events.jsonl"), "utf8") };
}

test.each(pairs)("%s below %s", async (inner, outer) => {
  const folder = (name: string): string => join(root, `${inner}-${outer}-${name}`);
  const reason = findRejection(inner, outer);
  if (reason) {
    const rejected = trainTwoSteps([inner, outer], folder("rejected"), false);
    await expect(rejected).rejects.toThrow(reason);
    await expect(rejected).rejects.toBeInstanceOf(UserError);
    return;
  }
  const index = pairs.findIndex(([first, second]) => first === inner && second === outer);
  // Eleven and the number of methods have no common divisor, so each method is below and above others.
  if (index % chooseExtent(11, 1) !== 0) return;
  const uninterrupted = await trainTwoSteps([inner, outer], folder("uninterrupted"), false);
  expect(uninterrupted.events.trim().split("\n")).toHaveLength(2);
  if (index % chooseExtent(3, 1) !== 0) return;
  expect(await trainTwoSteps([inner, outer], folder("resumed"), true)).toEqual(uninterrupted);
});

test.each(["", ...names, "ascc rift rose", "r-drop rose", "lora ascc rift rose"])(
  "a step of [%s] frees all of its tensors",
  async (list) => {
    const model = tinyModel();
    const before = getMemoryStats().tensors;
    const job = tinyJob(model, create(...list.split(" ").filter((name) => name !== "")));
    const training = await createTrainingContext(job);
    const runner = createStepRunner(training);
    const runStep = (stepIndex: number): void => {
      const hosts = (training.getEpochBatches(0)[stepIndex] ?? []).map((indices) => toHostBatch(job, indices));
      free(runner.runStep(stepIndex, hosts).values);
    };
    runStep(0);
    const after = getMemoryStats().tensors;
    runStep(1);
    runStep(2);
    expect(getMemoryStats().tensors).toBe(after);
    runner.dispose();
    training.close();
    expect(getMemoryStats().tensors).toBe(before);
    free(model.weights);
  },
);

test("rose on top of a stack of three methods keeps all of their losses", async () => {
  const chosen = ["ascc", "rift", "r-drop", "rose"];
  const uninterrupted = await trainTwoSteps(chosen, join(root, "four"), false);
  expect(Object.keys(JSON.parse(uninterrupted.events.split("\n")[1] ?? "{}"))).toEqual(
    expect.arrayContaining(["loss.task", "loss.robust", "loss.information", "loss.consistency", "rose.updateRatio"]),
  );
  expect(await trainTwoSteps(chosen, join(root, "four-resumed"), true)).toEqual(uninterrupted);
});

// ROSE, section 3.5: the second-order mask uses the gradient of the cross-entropy, the update that
// of the aggregated loss.
test("rose on top of r-drop takes the second-order mask from the cross-entropy alone", async () => {
  const isMaskable = (name: string): boolean => /\.layer\.\d+\..*\.weight$/.test(name);
  const tasks = new Map<number, number[]>();
  const compared: { mask: number[]; fromTask: number[]; fromTotal: number[] }[] = [];
  const readNorms = (named: NamedTensors): number[] => [...computeNorms([...named.values()]).toFloat32Array()];
  const observer: TrainingMethod = {
    name: "observer",
    gradients(context, next) {
      const losses = context
        .passTwice("clean", "again")
        .map(({ logits }) => crossEntropy(logits, context.batch.labels));
      const maskable = new Map([...context.training.job.model.weights].filter(([name]) => isMaskable(name)));
      const gradients = context.computeGradients(losses[0]!.add(losses[1]!).mul(0.5), maskable, true);
      tasks.set(context.batchIndex, readNorms(gradients));
      return next();
    },
    transformUpdates(step, next) {
      const names = [...step.gradients.keys()].filter(isMaskable);
      const pick = (get: (name: string) => Tensor): number[] =>
        readNorms(new Map(names.map((name) => [name, get(name)])));
      const moments = pick((name) => step.optimizer.firstMoment(name));
      const total = pick((name) => step.gradients.get(name)!);
      const clip = Math.min(1, 1 / (step.gradientNorm.item() + 1e-6));
      const select = (norms: readonly number[]): number[] => {
        const risks = norms.map((norm, i) => Math.abs((0.1 * norm) / moments[i]! - 1));
        return [...computeTensorMask(tensor(risks), 0.6, "rank").toFloat32Array()];
      };
      const updates = next();
      const mask = names.map((name) => updates.get(name)!.mask!.item());
      const task = tasks.get(step.stepIndex)!.map((norm) => norm * clip);
      if (step.stepIndex > 0) compared.push({ mask, fromTask: select(task), fromTotal: select(total) });
      return updates;
    },
  };
  const methods = [["r-drop", { alpha: 20 }], ["rose", { variant: "second", updateRatio: 0.6 }], observer] as const;
  await trainTiny(methods, { batchSize: 4, epochs: 4 });
  expect(compared.length).toBeGreaterThan(5);
  expect(compared.map(({ mask }) => mask)).toEqual(compared.map(({ fromTask }) => fromTask));
  expect(compared.some(({ fromTask, fromTotal }) => String(fromTask) !== String(fromTotal))).toBe(true);
});
