import { groupBy } from "../base/group-by.js";

/** The kinds of resources, whose costs are reported separately. */
export const resourceKinds = ["encoder", "mlm", "tagger", "gradient"] as const;

/**
 * Something besides the victim that answers for many inputs at once: a sentence encoder, a masked
 * language model, gradients. The pool collects the inputs of all searches into one call.
 */
export interface Resource<Input = never, Output = unknown> {
  readonly name: string;
  readonly kind: (typeof resourceKinds)[number];
  compute(inputs: readonly Input[]): Promise<readonly Output[]>;
}

/** Inputs for a resource. The answer has one output per input. */
export interface ResourceRequest {
  readonly resource: Resource;
  readonly inputs: readonly unknown[];
}

/** A computation that may need resources. */
export type ResourceGenerator<Result> = Generator<ResourceRequest, Result, readonly unknown[]>;

/** Requests outputs of a resource. Use it as `yield* request(…)`. */
export function* request<Input, Output>(
  resource: Resource<Input, Output>,
  inputs: readonly Input[],
): ResourceGenerator<readonly Output[]> {
  if (inputs.length === 0) return [];
  return (yield { resource: resource as unknown as Resource, inputs }) as readonly Output[];
}

/** Computes every distinct input once, and keeps about `maxKept` outputs. */
export function computeOnce<Input, Output>(
  getKey: (input: Input) => string,
  compute: (inputs: readonly Input[]) => readonly Output[],
  maxKept: number,
): (inputs: readonly Input[]) => Promise<readonly Output[]> {
  const kept = new Map<string, Output>();
  return async (inputs) => {
    const keys = inputs.map(getKey);
    const missing = new Map(keys.map((key, i) => [key, inputs[i]!] as const).filter(([key]) => !kept.has(key)));
    const computed = compute([...missing.values()]);
    const fresh = new Map([...missing.keys()].map((key, i) => [key, computed[i]!]));
    const outputs = keys.map((key) => fresh.get(key) ?? kept.get(key)!);
    if (kept.size > maxKept) kept.clear();
    for (const [key, output] of fresh) kept.set(key, output);
    return outputs;
  };
}

export type ComputeResource = (resource: Resource, inputs: readonly never[]) => Promise<readonly unknown[]>;

interface WaitingRequest extends ResourceRequest {
  answer(outputs: readonly unknown[]): void | Promise<void>;
}

/** Answers requests. The inputs for the same resource are one call. */
export async function answerTogether(
  requests: readonly WaitingRequest[],
  compute: ComputeResource = (resource, inputs) => resource.compute(inputs),
): Promise<void> {
  for (const [resource, group] of groupBy(requests, (each) => each.resource)) {
    const outputs = await compute(resource, group.flatMap(({ inputs }) => inputs) as never[]);
    let start = 0;
    for (const { inputs, answer } of group) {
      await answer(outputs.slice(start, start + inputs.length));
      start += inputs.length;
    }
  }
}

/** Runs computations in step, so that each resource answers all of them at once. */
export async function computeTogether<Result>(
  generators: readonly ResourceGenerator<Result>[],
  compute?: ComputeResource,
): Promise<Result[]> {
  const steps = generators.map((generator) => generator.next([]));
  for (;;) {
    const advance = (i: number, outputs: readonly unknown[]): void => {
      steps[i] = generators[i]!.next(outputs);
    };
    const waiting = steps.flatMap((step, i) =>
      step.done ? [] : [{ ...step.value, answer: (outputs: readonly unknown[]) => advance(i, outputs) }],
    );
    if (waiting.length === 0) return steps.map(({ value }) => value as Result);
    await answerTogether(waiting, compute);
  }
}
