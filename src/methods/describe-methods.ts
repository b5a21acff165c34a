import { describeOptions, type OptionDescription } from "../base/describe-options.js";
import type { MethodDefinition } from "./define-method.js";
import { loadMethods, methods, resolveMethods } from "./index.js";

export interface MethodDescription {
  readonly name: string;
  readonly summary: string;
  readonly paper: string;
  readonly cost: NonNullable<MethodDefinition["cost"]> | null;
  readonly options: readonly OptionDescription[];
}

/** The base of every stack. It has no definition, because the trainer itself does it. */
const standard: MethodDescription = {
  name: "standard",
  summary: "cross-entropy on the labels, the base of every stack",
  paper: "Devlin et al. 2019, BERT: Pre-training of Deep Bidirectional Transformers",
  cost: { gpu: "1", cpu: "1" },
  options: [],
};

function describe({ name, summary, paper, cost, options }: MethodDefinition): MethodDescription {
  return { name, summary, paper, cost: cost ?? null, options: describeOptions(options) };
}

export async function describeMethods(name?: string): Promise<MethodDescription[]> {
  if (name === undefined) return [standard, ...[...methods.values()].map(describe)];
  if (name === "standard") return [standard];
  const [spec] = await loadMethods([{ name, options: {} }]);
  // The options are not checked: some methods have options without a default.
  const definition = spec!.definition ?? methods.get(name);
  return [describe(definition ?? resolveMethods([spec!], () => `temper methods ${name}`)[0]!.definition)];
}
