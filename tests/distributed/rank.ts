// One process of a data-parallel training. The test bundles this file and starts it once per rank:
// node rank.mjs RENDEZVOUS STACKS RESULTS [PART]

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { listen } from "../../src/base/events.js";
import { createMethods } from "../../src/methods/index.js";
import { ProcessGroup, type Rendezvous } from "../../src/tensor/index.js";
import { type Ranks, type TrainingJob, train } from "../../src/train/index.js";
import { readValues, texts, tinyDataset, tinyJob, tinyModel } from "../methods/tiny.js";
import { type Stack, stacks } from "./stacks.js";

/** What a training has computed. */
export interface StackResult {
  /** The gradients of the first step. */
  readonly gradients: Record<string, number[]>;
  readonly losses: readonly number[];
  readonly metrics: unknown;
  readonly weights: Record<string, number[]>;
}

/** A part of a training: it continues from the checkpoint of the part before. */
export interface TrainingPart {
  readonly folder: string;
  /** Its last step. Default: that of the training. */
  readonly stopAfter?: number;
}

/** Fourteen texts in batches of six: the last batch has two examples. */
const dataset = tinyDataset([...texts, ...texts.slice(0, 2)]);

/** The job of a stack. Gradients are not clipped, so that a step has the mean of all processes. */
export function createStackJob({ methods, settings }: Stack, changes: Partial<TrainingJob> = {}): TrainingJob {
  return tinyJob(
    tinyModel(),
    createMethods(methods),
    { train: dataset, ...changes },
    { epochs: 3, batchSize: 6, maxGradNorm: null, loadBestModelAtEnd: false, saveSteps: 2, ...settings },
  );
}

async function runStack(
  stack: Stack,
  ranks: Ranks,
  { folder, stopAfter }: Partial<TrainingPart>,
): Promise<StackResult> {
  let gradients: Record<string, number[]> | undefined;
  const losses: number[] = [];
  const getPath = (name: string): string => join(folder ?? "", name);
  const files = {
    ...{ events: getPath("events"), timings: getPath("timings") },
    ...{ checkpoints: getPath("checkpoints"), adapter: getPath("adapter") },
  };
  const job = createStackJob(stack, {
    validation: dataset,
    ...(folder !== undefined && ranks.rank === 0 && { files, resume: true }),
    ...(stopAfter !== undefined && { stopAfter }),
    ...listen({ log: ({ entry }) => "loss" in entry && losses.push(entry.loss as number) }),
  });
  const observer = {
    name: "observer",
    transformUpdates(step, next) {
      gradients ??= readValues(step.gradients);
      return next();
    },
  } satisfies TrainingJob["methods"][number];
  const result = await train({ ...job, methods: [...job.methods, observer] }, ranks);
  return { gradients: gradients ?? {}, losses, metrics: result.validation, weights: readValues(job.model.weights) };
}

async function main(): Promise<void> {
  const [rendezvous, names, out, part = "{}"] = process.argv.slice(2) as [string, string, string, string?];
  const group = ProcessGroup.open(JSON.parse(rendezvous) as Rendezvous);
  const wanted = new Set(JSON.parse(names) as string[]);
  const results: Record<string, StackResult> = {};
  try {
    for (const stack of stacks) {
      if (!wanted.has(stack.name)) continue;
      results[stack.name] = await runStack(stack, group, JSON.parse(part) as Partial<TrainingPart>);
    }
  } catch (error) {
    group.fail(error);
    throw error;
  }
  group.close();
  writeFileSync(`${out}.${group.rank}.json`, JSON.stringify(results));
}

if (process.argv[1]?.endsWith("rank.mjs")) await main();
