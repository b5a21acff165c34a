import type { z } from "zod";
import { loadConfiguredTask } from "../actions/load/load-task.js";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import {
  batchByLength,
  checkOutputs,
  extractFeatures,
  forward,
  loadModel,
  type Model,
  type TokenInput,
  toModelInput,
} from "../models/index.js";
import { crossEntropy, crossEntropyPerExample, evalMode, type Weights } from "../nn/index.js";
import type { RunFolder } from "../runs/run-folder.js";
import type { Example } from "../tasks/example.js";
import { sampleExamples } from "../tasks/sample.js";
import type { Task } from "../tasks/task.js";
import { cat, type Device, free, keep, noGrad, scope, stack, type Tensor, tensor } from "../tensor/index.js";
import { padBatch } from "../text/batch.js";
import { toDataset } from "../train/index.js";
import { applyFloat32Runtime, type LabeledRun, type sampleOptions } from "./define-analysis.js";

export async function loadSharedSample(
  runs: readonly LabeledRun[],
  request: z.output<z.ZodObject<ReturnType<typeof sampleOptions>>>,
  context: Pick<Callbacks, "onEvent">,
): Promise<{ readonly task: Task; readonly examples: readonly Example[]; readonly device: Device }> {
  const tasks = [...new Set(runs.map(({ results }) => results.task))];
  if (tasks.length !== 1)
    throw new UserError(`Expected runs of one task, found ${tasks.join(" and ")}. Analyze one task at a time.`);
  const { device } = applyFloat32Runtime(request);
  const task = await loadConfiguredTask(runs[0]!.run.config, context);
  const all = await task.load(request.split);
  return { task, examples: sampleExamples(all, request.numExamples, request.seed, task.labels.length), device };
}

export function loadFineTunedModel({ folder }: RunFolder, device: Device): Promise<Model> {
  return loadModel(folder, { device });
}

/** Loads the model as it was before a run's first step. The caller frees its weights. */
export function loadInitialModel({ config }: RunFolder, labels: readonly string[], device: Device): Promise<Model> {
  const { head, headInit, pooling, tokenization, maxLength, seed } = config;
  return loadModel(config.model, { labels, head, headInit, pooling, tokenization, maxLength, seed, device });
}

export async function freeAfter<T>(model: Model, work: (model: Model) => T | Promise<T>): Promise<T> {
  try {
    return await work(model);
  } finally {
    free(model.weights);
  }
}

export async function withModel<T>(
  { examples, device }: { readonly task: Task; readonly examples: readonly Example[]; readonly device: Device },
  load: () => Promise<Model>,
  work: (model: Model, batch: ReturnType<typeof createFixedBatch>) => T | Promise<T>,
): Promise<T> {
  return freeAfter(await load(), async (model) => {
    const batch = createFixedBatch(model, examples, device);
    try {
      return await work(model, batch);
    } finally {
      batch.free();
    }
  });
}

export interface ExampleLosses {
  readonly loss: number;
  readonly accuracy: number;
  readonly losses: readonly number[];
}

const tokensPerMicroBatch = { cpu: 4096, gpu: 65_536 };

/** Examples on the device, to be evaluated under many weights. Results are in the order of the examples. */
export function createFixedBatch(model: Model, examples: readonly Example[], device: Device) {
  const { items } = toDataset(model, examples);
  const encodings = items.map((item) => item.encoding);
  const microBatches = batchByLength(encodings, tokensPerMicroBatch[device === "cpu" ? "cpu" : "gpu"]).map(
    (rows): { readonly rows: readonly number[]; readonly input: TokenInput; readonly labels: Tensor } => {
      const picked = rows.map((row) => encodings[row]!);
      const padded = padBatch(picked, model.tokenizer.special.padId);
      const labels = Int32Array.from(rows, (row) => items[row]!.example.label);
      return {
        rows,
        ...keep({
          input: toModelInput(padded, model.architecture.config, device),
          labels: tensor(labels, [rows.length], { device }),
        }),
      };
    },
  );
  return {
    measure(weights: Weights): ExampleLosses {
      let [loss, correct] = [0, 0];
      const losses: number[] = [];
      for (const { rows, input, labels } of microBatches) {
        const [meanLoss, hits, ...each] = scope(() => noGrad(() => measureMicroBatch(model, weights, input, labels)));
        loss += meanLoss! * rows.length;
        correct += hits!;
        for (const [i, row] of rows.entries()) losses[row] = Number(each[i]!.toPrecision(7));
      }
      return { loss: loss / items.length, accuracy: correct / items.length, losses };
    },
    features(weights: Weights): Float32Array[] {
      const features: Float32Array[] = [];
      for (const { rows, input } of microBatches) {
        const values = scope(() =>
          noGrad(() => checkOutputs(extractFeatures(model.architecture, weights, input, evalMode).toFloat32Array())),
        );
        const width = values.length / rows.length;
        for (const [i, row] of rows.entries()) features[row] = values.slice(i * width, (i + 1) * width);
      }
      return features;
    },
    free: () => free(microBatches),
  };
}

function measureMicroBatch(model: Model, weights: Weights, input: TokenInput, labels: Tensor): Float32Array {
  const { logits } = forward(model.architecture, weights, input, evalMode);
  const correct = logits.argmax(-1).eq(labels).to("float32").sum();
  const totals = stack([crossEntropy(logits, labels), correct], 0);
  return cat([totals, crossEntropyPerExample(logits, labels)], 0).toFloat32Array();
}
