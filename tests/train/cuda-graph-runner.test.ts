import { afterEach, expect, test, vi } from "vitest";
import {
  ascc,
  childTuning,
  createMethods,
  discreteAdversarial,
  energy,
  freelb,
  lora,
  type MethodSpec,
  mixout,
  mof,
  ptwd,
  rDrop,
  rift,
  rose,
  smart,
} from "../../src/methods/index.js";
import { free, getMemoryStats, noGrad, Rng, seedGenerator, type Tensor, zeros } from "../../src/tensor/index.js";
import { toHostBatch } from "../../src/train/batch-transfer.js";
import { CudaRandomStreams } from "../../src/train/random-streams.js";
import { cudaGraphRunner, eagerRunner, type StepRunner } from "../../src/train/step-runner.js";
import { type ActiveTraining, createTrainingContext } from "../../src/train/training-context.js";
import { chooseExtent } from "../extent.js";
import { tinyJob, tinyModel } from "../methods/tiny.js";

// A simulated GPU. A capture must not change anything, so its changes are undone. Each replay runs
// the step again with the random states that were seeded for it, and writes to the same output.
const gpu = vi.hoisted(() => ({
  changing: [] as Tensor[],
  seeds: new Map<number, number>(),
  /**
   * The random states that the graph enters, in order: written during capture, read during replay.
   */
  entered: null as number[] | null,
  replayed: null as Iterator<number> | null,
  captures: 0,
}));
vi.mock("../../src/tensor/graph.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/graph.js")>()),
  allocatePinned: (shape: readonly number[], type: "float32" | "bool") => zeros(shape, { dtype: type }),
  captureGraph: (_states: readonly number[], body: () => { values: Tensor }) => {
    const before = noGrad(() => gpu.changing.map((tensor) => tensor.detach().clone()));
    const entered: number[] = [];
    gpu.entered = entered;
    const result = body();
    gpu.entered = null;
    noGrad(() => gpu.changing.map((tensor, i) => tensor.copy_(before[i]!)));
    free(before);
    gpu.captures++;
    const replay = (): void => {
      gpu.replayed = entered.values();
      const again = body();
      gpu.replayed = null;
      noGrad(() => result.values.copy_(again.values));
      free(again.values);
    };
    return { result, graph: { replay, free() {} } };
  },
}));
vi.mock("../../src/tensor/native.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/native.js")>()),
  nativeCuda: () => ({ eventRecord() {}, eventWait() {} }),
}));
const generators = {
  enterRandom(state: number, seed: number): void {
    gpu.entered?.push(state);
    const own = gpu.replayed ? (gpu.replayed.next().value as number) : state;
    if (!gpu.entered && !gpu.replayed) gpu.seeds.set(own, seed);
    seedGenerator("cpu", gpu.seeds.get(own)!);
  },
  seedRandom: (state: number, seed: number): void => void gpu.seeds.set(state, seed),
};

const epochs = chooseExtent(3, 6);
let tensors: number;
afterEach(() => expect(getMemoryStats().tensors).toBe(tensors));

async function trainLosses(
  specs: readonly MethodSpec[],
  settings: object,
  createRunner: (training: ActiveTraining) => StepRunner,
): Promise<number[][]> {
  const model = tinyModel();
  const methods = createMethods(specs);
  const job = tinyJob(model, methods, {}, { epochs, batchSize: 5, ...settings });
  const training = await createTrainingContext(job);
  const { parameters, optimizer } = training;
  const buffers = methods.flatMap((method) => [...(method.state?.().buffers?.values() ?? [])]);
  gpu.changing = [...new Set([...model.weights.values(), ...parameters.values()])];
  gpu.changing.push(...optimizer.moments().values(), optimizer.step, ...buffers);
  const runner = createRunner(training);
  const losses: number[][] = [];
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (const batches of training.getEpochBatches(epoch)) {
      // The learning rate changes between replays.
      optimizer.setLearningRateFactor(1 / (1 + losses.length));
      for (const method of methods) await method.beforeStep?.(training, losses.length);
      const hosts = batches.map((indices) => toHostBatch(job, indices));
      const { values } = runner.runStep(losses.length, hosts);
      losses.push([...values.toFloat32Array()]);
      free(values);
    }
  }
  runner.dispose();
  training.close();
  free(model.weights);
  return losses;
}

// Every step of the search is captured in the same way, so a few are enough.
const search = ascc({ innerSteps: 3 });
const stacks: [string, MethodSpec[]][] = [
  ["standard", []],
  ["r-drop", [rDrop()]],
  ["rose (first)", [rose({ variant: "first" })]],
  ["rose (second)", [rose({ variant: "second" })]],
  ["rose", [rose()]],
  ["child-tuning (F)", [childTuning({ variant: "F" })]],
  ["child-tuning (D)", [childTuning()]],
  ["ascc", [search]],
  ["ascc, rift", [search, rift()]],
  ["smart", [smart()]],
  ["freelb", [freelb({ steps: 2 })]],
  ["ptwd", [ptwd()]],
  ["mixout", [mixout()]],
  ["ascc, mixout, ptwd", [search, mixout(), ptwd()]],
  ["lora, rose", [lora({ rank: 2 }), rose()]],
  ["lora, smart", [lora({ rank: 2 }), smart()]],
  ["discrete-adversarial", [discreteAdversarial({ interval: 3, fraction: 0.6 })]],
  ["energy, mof", [energy(), mof({ interval: 3, benignLabel: "c" })]],
];
// Every second stack with one batch per step, and every sixth with two; in make test-long, all with both.
const cases = stacks.flatMap(([name, specs], i) =>
  [1, 2]
    .filter((count) => i % chooseExtent(count === 1 ? 2 : 6, 1) === 0)
    .map((count) => [name, count, specs] as const),
);
test.each(cases)(
  "%s with %i batches per step: captured steps are identical to eager ones",
  async (_name, count, specs) => {
    tensors = getMemoryStats().tensors;
    const settings = { gradientAccumulationSteps: count };
    const eager = await trainLosses(specs, settings, eagerRunner);
    gpu.captures = 0;
    const captured = await trainLosses(specs, settings, (training) =>
      cudaGraphRunner({ ...training, streams: new CudaRandomStreams(new Rng(training.job.seed), generators) }),
    );
    expect(gpu.captures).toBeGreaterThan(0);
    expect(captured).toEqual(eager);
  },
);
