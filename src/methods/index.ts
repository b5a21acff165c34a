/**
 * Fine-tuning methods, and what is needed to write one.
 *
 * @example
 * import { ascc, rift } from "temper-nlp/methods";
 * const methods = [ascc({ beta: 4 }), rift({ alpha: 0.1 })];
 *
 * @module
 */
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { importDefault, isModulePath, type Reference } from "../base/trust.js";
import { validate } from "../base/validate.js";
import { metrics } from "../evaluation/metrics.js";
import type { TrainedCertificate } from "../proofs/certificates/index.js";
import type { TrainingMethod } from "../train/index.js";
import * as builtIn from "./built-in.js";
import type { MethodDefinition, MethodSpec } from "./define-method.js";

export type {
  Architecture,
  DeviceConfig,
  EncoderConfig,
  EncoderInput,
  HeadName,
  Model,
  ModelOutput,
  PoolingMode,
  TokenInput,
} from "../models/index.js";
export type { Example, Split, Task } from "../tasks/index.js";
export type { PaddedBatch } from "../text/batch.js";
export type { Encoding, Tokenization, Tokenizer, WordLevelEncoding } from "../text/encoding.js";
export type { PartOfSpeech } from "../text/part-of-speech.js";
export type { Substitutions } from "../text/substitutions.js";
export type { Batch, Dataset, HostBatch, Metrics, TokenizedExample } from "../train/index.js";
export type * from "../train/training-method.js";
export * from "./built-in.js";
export { defineMethod, type Method, type MethodDefinition, type MethodSpec } from "./define-method.js";

const builtInMethods = Object.values(builtIn);

/**
 * A method in one text: its name, its name with options, or a module.
 *
 *     const methods: MethodReference[] = ["rose", "rose:variant=first", "./mine.js"];
 */
export type MethodReference = Reference<(typeof builtInMethods)[number]["name"] | "standard">;

export const methods: ReadonlyMap<string, MethodDefinition> = new Map(
  builtInMethods.map((method) => [method.name, method as unknown as MethodDefinition]),
);

/** A method whose name and options are valid. The options include the defaults. */
export interface ResolvedMethod extends MethodSpec {
  readonly definition: MethodDefinition;
}

export function loadMethods(specs: readonly MethodSpec[]): Promise<MethodSpec[]> {
  return Promise.all(
    specs.map(async (spec) =>
      spec.definition || !isModulePath(spec.name) ? spec : { ...spec, definition: await importMethod(spec.name) },
    ),
  );
}

async function importMethod(path: string): Promise<MethodDefinition> {
  const definition = (await importDefault(path, "method")) as MethodDefinition | undefined;
  if (typeof definition?.create !== "function" || typeof definition.options?.safeParse !== "function")
    throw new UserError(`method ${path}: the default export must be a method. Create it with defineMethod.`);
  return definition;
}

/** Checks the names and options of methods and adds defaults. `standard` is left out. */
export function resolveMethods(
  specs: readonly MethodSpec[],
  locate: (index: number, name: string, path?: readonly PropertyKey[]) => string = (i, name) =>
    `methods[${i}] (${name})`,
): ResolvedMethod[] {
  return specs.flatMap(({ name, options, definition = methods.get(name) }, i) => {
    if (name === "standard") return [];
    if (!definition) {
      const names = ["standard", ...methods.keys()];
      const remedy = isModulePath(name)
        ? "Load it with loadMethods first."
        : `Use one of ${names.join(", ")}, or the path of a module with a custom method.`;
      throw new UserError(`${locate(i, name)}: unknown method${didYouMean(name, names)}. ${remedy}`);
    }
    const resolved = validate(definition.options, options, (path) => locate(i, name, path));
    return [{ name, options: resolved as MethodSpec["options"], definition }];
  });
}

/**
 * Creates methods, innermost first. Each call creates new methods, and each can train once.
 *
 * @example
 * createMethods([ascc({ beta: 4 }), { name: "rift", options: {} }]);
 */
export function createMethods(
  specs: readonly MethodSpec[],
  locate?: (index: number, name: string, path?: readonly PropertyKey[]) => string,
): TrainingMethod[] {
  return createResolvedMethods(resolveMethods(specs, locate));
}

export function createResolvedMethods(resolved: readonly ResolvedMethod[]): TrainingMethod[] {
  return resolved.map(({ definition, options }) => definition.create(options));
}

export function findTrainedCertificate(specs: readonly MethodSpec[]): TrainedCertificate | null {
  // The options of the others may be those of an earlier version.
  const certifying = specs.filter(({ name, definition = methods.get(name) }) => definition?.certificate);
  const found = resolveMethods(certifying).map(({ definition, options }) => definition.certificate!(options));
  return found[0] ?? null;
}

export function listBestModelMetrics(resolved: readonly ResolvedMethod[]): string[] {
  return [...Object.keys(metrics), ...resolved.flatMap(({ definition }) => definition.bestModelMetric ?? [])];
}
