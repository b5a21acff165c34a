import { afterEach, expect, test, vi } from "vitest";
import { createMethods } from "../../src/methods/index.js";
import { parseSpec } from "../../src/spec.js";
import { free, getMemoryStats, noGrad, Rng, seedGenerator, type Tensor, zeros } from "../../src/tensor/index.js";
import { cudaGraphRunner } from "../../src/train/cuda-graph-runner.js";
import { toHostBatch } from "../../src/train/host-batch.js";
import { type PreparedTraining, prepareTraining } from "../../src/train/prepare-training.js";
import { CudaRandomStreams } from "../../src/train/random-streams.js";
import { eagerRunner, type StepRunner } from "../../src/train/runner.js";
import { tinyJob, tinyModel } from "../methods/tiny.js";

// There is no GPU here. What is recorded must change nothing, so its changes are taken back; at each replay it is done anew, with the
// random states as they were seeded for it, and its numbers come to the same place.
const gpu = vi.hoisted(() => ({
  changing: [] as Tensor[],
  seeds: new Map<number, number>(),
  /** The random states that the graph at hand enters, in order: written while it is recorded, read while it is replayed. */
  entered: null as number[] | null,
  replayed: null as Iterator<number> | null,
  recordings: 0,
}));
vi.mock("../../src/tensor/graph.js", async (load) => ({
  ...(await load<typeof import("../../src/tensor/graph.js")>()),
  pinned: (shape: readonly number[], type: "float32" | "bool") => zeros(shape, { dtype: type }),
  capture: (_states: readonly number[], body: () => { values: Tensor }) => {
    const before = noGrad(() => gpu.changing.map((tensor) => tensor.detach().clone()));
    const entered: number[] = [];
    gpu.entered = entered;
    const result = body();
    gpu.entered = null;
    noGrad(() => gpu.changing.map((tensor, i) => tensor.copy_(before[i]!)));
    free(before);
    gpu.recordings++;
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

let tensors: number;
afterEach(() => expect(getMemoryStats().tensors).toBe(tensors));

async function lossesOf(
  methods: readonly string[],
  settings: object,
  open: (training: PreparedTraining, seed: number) => StepRunner,
): Promise<number[][]> {
  const model = tinyModel();
  const layers = createMethods(methods.map((name) => parseSpec(name, "--method")));
  const job = tinyJob(model, layers, {}, { epochs: 4, batchSize: 5, ...settings });
  const training = await prepareTraining(job, null);
  const { run, context } = training;
  const buffers = layers.flatMap((layer) => [...(layer.state?.().buffers?.values() ?? [])]);
  gpu.changing = [
    ...run.parameters.values(),
    ...context.optimizer.moments().values(),
    context.optimizer.step,
    ...buffers,
  ];
  const runner = open(training, job.seed);
  const losses: number[][] = [];
  for (let epoch = 0; epoch < 4; epoch++) {
    for (const batches of training.getEpochBatches(epoch)) {
      // The rate changes between replays.
      context.optimizer.setLearningRateFactor(1 / (1 + losses.length));
      const hosts = batches.map((indices) => toHostBatch(run.dataset, indices, 0, "cpu"));
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

const methods = [
  "standard",
  "r-drop",
  "rose:variant=first",
  "rose:variant=second",
  "rose:maskInterval=2",
  "child-tuning:variant=F",
  "child-tuning",
  "ascc",
  "ascc+rift",
  "smart",
  "freelb:steps=2",
  "ptwd",
  "mixout",
  "ascc+mixout+ptwd",
];
test.each(
  methods.flatMap(
    (name) =>
      [
        [name, 1],
        [name, 2],
      ] as const,
  ),
)("%s, %i batches an update: recorded updates are those run operator by operator", async (name, gradientAccumulationSteps) => {
  tensors = getMemoryStats().tensors;
  const list = name === "standard" ? [] : name.split("+");
  const eager = await lossesOf(list, { gradientAccumulationSteps }, ({ context }) => eagerRunner(context));
  gpu.recordings = 0;
  const recorded = await lossesOf(list, { gradientAccumulationSteps }, ({ context }, seed) =>
    cudaGraphRunner({ ...context, streams: new CudaRandomStreams(new Rng(seed), generators) }),
  );
  expect(gpu.recordings).toBeGreaterThan(0);
  expect(recorded).toEqual(eager);
});
