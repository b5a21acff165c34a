import { describeOptions, type OptionDescription } from "../base/describe-options.js";
import type { MethodCost } from "./define-method.js";
import { loadMethods, methods, resolveMethods } from "./index.js";

export interface MethodDescription {
  readonly name: string;
  readonly summary: string;
  readonly paper: string;
  /** Time of a training step as a multiple of a standard step; null if it is not known. */
  readonly cost: MethodCost | null;
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

/** Describes a method by name or by the path of a module; without a name, all built-in methods. */
export async function describeMethods(name?: string): Promise<MethodDescription[]> {
  if (name === "standard") return [standard];
  const specs = name === undefined ? [...methods.keys()].map((each) => ({ name: each, options: {} })) : null;
  const loaded = await loadMethods(specs ?? [{ name: name!, options: {} }]);
  const found = loaded.map(({ definition, ...spec }) => {
    // The options are not checked: some methods have options without a default.
    const known = definition ?? methods.get(spec.name);
    return known ?? resolveMethods([spec], () => `temper methods ${spec.name}`)[0]!.definition;
  });
  const described = found.map(({ name: own, summary, paper, cost, options }) => ({
    ...{ name: own, summary, paper, cost: cost ?? null },
    options: describeOptions(options),
  }));
  return name === undefined ? [standard, ...described] : described;
}
