import { z } from "zod";
import { type Resource, resourceKinds } from "./requests.js";

const count = z.number();

/** The cost of a kind of resource: calls, inputs of all searches in them, and time. */
const resourceCostSchema = z.object({ calls: count, inputs: count, seconds: count });

export const resourceCostsSchema = z.partialRecord(z.enum(resourceKinds), resourceCostSchema);

export const countersSchema = z.object({
  queries: count,
  queryTokens: count,
  evaluations: count,
  evaluatedTokens: count,
  /** The cost of the sentence encoder, the masked language model, the tagger and gradients. */
  resources: resourceCostsSchema.default({}),
});

/**
 * Texts queried and texts evaluated by the victim. Deduplication and the cache save the difference.
 */
export type QueryCounters = z.output<typeof countersSchema>;

export function createCounters(): QueryCounters {
  return { queries: 0, queryTokens: 0, evaluations: 0, evaluatedTokens: 0, resources: {} };
}

const textCounts = ["queries", "queryTokens", "evaluations", "evaluatedTokens"] as const;
const costCounts = ["calls", "inputs", "seconds"] as const;

/** Adds what was counted since `start` to a total. */
export function addCounters(total: QueryCounters, counters: QueryCounters, start = createCounters()): void {
  for (const key of textCounts) total[key] += counters[key] - start[key];
  for (const kind of resourceKinds) {
    const cost = counters.resources[kind];
    if (!cost || cost.calls === start.resources[kind]?.calls) continue;
    total.resources[kind] ??= { calls: 0, inputs: 0, seconds: 0 };
    for (const key of costCounts) total.resources[kind][key] += cost[key] - (start.resources[kind]?.[key] ?? 0);
  }
}

/** Computes the outputs of a resource, and adds their cost to the counters. */
export async function computeAndCount<Input, Output>(
  resource: Resource<Input, Output>,
  inputs: readonly Input[],
  counters: QueryCounters,
): Promise<readonly Output[]> {
  const start = performance.now();
  const outputs = await resource.compute(inputs);
  const seconds = (performance.now() - start) / 1000;
  const cost = { calls: 1, inputs: inputs.length, seconds };
  addCounters(counters, { ...createCounters(), resources: { [resource.kind]: cost } });
  return outputs;
}
