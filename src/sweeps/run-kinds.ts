import { z } from "zod";
import { loadMethods, resolveMethods } from "../methods/index.js";
import type { RunConfig } from "../settings/config.js";

/** Runs that cost the same. */
export interface RunKind {
  /** The config of one of them. */
  readonly config: RunConfig;
  readonly count: number;
  /** Equal for runs with the same methods, whatever the weights of their losses are. */
  readonly stack: string;
  /** Equal for runs with the same texts and the same tokens. */
  readonly data: string;
}

/** Groups runs by what decides their cost. */
export async function listRunKinds(configs: readonly RunConfig[]): Promise<RunKind[]> {
  const kinds = new Map<string, RunKind>();
  const stacks = new Map<string, string>();
  for (const config of configs) {
    const methods = JSON.stringify(config.methods);
    if (!stacks.has(methods)) stacks.set(methods, await formatStack(config));
    const { device, precision, threads, cudaGraphs } = config;
    const stack = JSON.stringify([stacks.get(methods), device, precision, threads, cudaGraphs]);
    const data = formatData(config);
    const { epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps } = config.train;
    const { evalSteps, evalEpochs } = config.train;
    const batches = [epochs, batchSize, batchSampler, groupByLength, gradientAccumulationSteps, evalSteps, evalEpochs];
    const key = JSON.stringify([data, stack, batches]);
    const known = kinds.get(key) ?? { config, stack, data, count: 0 };
    kinds.set(key, { ...known, count: known.count + 1 });
  }
  return [...kinds.values()];
}

/**
 * The methods with the options that change their cost. A number that may be a fraction weighs
 * something: it only does so if it is 0, or if it changes the texts.
 */
async function formatStack({ methods }: RunConfig): Promise<string> {
  const resolved = resolveMethods(await loadMethods(methods));
  return JSON.stringify(
    resolved.map(({ name, options, definition }) => {
      if (definition.create(options).transformExamples) return [name, options];
      const { properties = {} } = z.toJSONSchema(definition.options, { io: "input", unrepresentable: "any" });
      const costs = Object.entries(options).map(([key, value]) => {
        const isWeight = typeof value === "number" && acceptsFractions((properties as Properties)[key]);
        return [key, isWeight ? value !== 0 : value];
      });
      return [name, costs];
    }),
  );
}

/** A part of a JSON schema. */
interface NumberSchema {
  readonly type?: string;
  readonly anyOf?: readonly NumberSchema[];
}
type Properties = Readonly<Record<string, NumberSchema>>;

function acceptsFractions({ type, anyOf = [] }: NumberSchema = {}): boolean {
  return type === "number" || anyOf.some(acceptsFractions);
}

/** Everything that decides the texts of a run and their tokens. */
function formatData(config: RunConfig): string {
  const { task, data, textColumn, labelColumn, labelMap, skipBadRows, validationData, testData } = config;
  const { model, tokenization, normalize, maxLength, maxTrainSamples, maxValidationSamples, maxTestSamples } = config;
  return JSON.stringify([
    ...[task, data, textColumn, labelColumn, labelMap, skipBadRows, validationData, testData],
    ...[model, tokenization, normalize, maxLength, maxTrainSamples, maxValidationSamples, maxTestSamples],
  ]);
}
