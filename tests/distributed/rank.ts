// One process of a distributed training. The test bundles this file and starts it once per rank:
// node rank.mjs RENDEZVOUS STACKS RESULT [PART]

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { listen } from "../../src/base/events.js";
import { createMethods } from "../../src/methods/index.js";
import { ProcessGroup, type Rendezvous, type Tensor } from "../../src/tensor/index.js";
import { createRanks, type Ranks, train } from "../../src/train/index.js";
import { chooseExtent } from "../extent.js";
import { readValues, texts, tinyDataset, tinyJob, tinyModel } from "../methods/tiny.js";
import { type Stack, stacks } from "./stacks.js";

/** What is compared between numbers of processes. */
export interface StackResult {
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

/** Fourteen texts in batches of six: the last batch has two rows, fewer than three processes. */
const dataset = tinyDataset([...texts, ...texts.slice(0, 2)]);

export async function runStack(
  { methods, settings }: Stack,
  ranks?: Ranks,
  { folder, stopAfter }: Partial<TrainingPart> = {},
): Promise<StackResult> {
  let gradients: Record<string, number[]> | undefined;
  const model = tinyModel();
  const losses: number[] = [];
  const observed = createMethods(methods);
  observed.push({
    name: "observer",
    traits: { acrossProcesses: "mean" },
    transformUpdates(step, next) {
      const copies = new Map<string, Tensor>([...step.gradients].map(([name, value]) => [name, value.clone()]));
      gradients ??= readValues(copies);
      return next();
    },
  });
  const [events, timings, checkpoints] = ["events", "timings", "checkpoints"].map((name) => join(folder ?? "", name));
  const files = { events: events!, timings: timings!, checkpoints: checkpoints!, adapter: `${checkpoints!}-adapter` };
  const result = await train(
    tinyJob(
      model,
      observed,
      {
        train: dataset,
        validation: dataset,
        ...(ranks && { ranks }),
        ...(folder !== undefined && (ranks?.rank ?? 0) === 0 && { files, resume: true }),
        ...(stopAfter !== undefined && { stopAfter }),
        ...listen({ log: ({ entry }) => "loss" in entry && losses.push(entry.loss as number) }),
      },
      // Adam divides by the gradient, so rounding errors of gradients near 0 would become whole steps.
      {
        ...{ epochs: chooseExtent(4, 7), batchSize: 6, loadBestModelAtEnd: false, saveSteps: 2, adamEpsilon: 1e-4 },
        ...settings,
      },
    ),
  );
  return { gradients: gradients ?? {}, losses, metrics: result.validation, weights: readValues(model.weights) };
}

async function main(): Promise<void> {
  const [rendezvous, names, out, part = "{}"] = process.argv.slice(2) as [string, string, string, string?];
  const group = ProcessGroup.open(JSON.parse(rendezvous) as Rendezvous);
  const ranks = createRanks(group);
  const wanted = new Set(JSON.parse(names) as string[]);
  const results: Record<string, StackResult> = {};
  try {
    for (const stack of stacks) {
      if (!wanted.has(stack.name)) continue;
      results[stack.name] = await runStack(stack, ranks, JSON.parse(part) as Partial<TrainingPart>);
    }
  } catch (error) {
    group.fail(error);
    throw error;
  }
  group.close();
  if (ranks.rank === 0) writeFileSync(out, JSON.stringify(results));
}

if (process.argv[1]?.endsWith("rank.mjs")) await main();
