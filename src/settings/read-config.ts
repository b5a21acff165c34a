// Reads the settings of a run from flags, a file or a program, and resolves them once.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { toFlag } from "../base/shell.js";
import { isModulePath, type ModulePolicy, resolveModule, type Trust } from "../base/trust.js";
import { validate } from "../base/validate.js";
import { type KeyPath, parseAssignment, readYaml, splitKey } from "../base/yaml.js";
import { loadMethods, type MethodSpec, type ResolvedMethod, resolveMethods } from "../methods/index.js";
import { getDataRoots } from "../tasks/find-dataset.js";
import type { InMemoryExample } from "../tasks/index.js";
import { dataFile, dataOptions, flattenData, type RunConfig, runConfigSchema } from "./config.js";

export type ConfigObject = Record<string, unknown>;

function setConfigValue(tree: ConfigObject, path: string, value: unknown): void {
  const parts = splitKey(path);
  const last = parts.pop() as string;
  let at = tree;
  for (const part of parts) {
    const next = (Object.hasOwn(at, part) ? at[part] : null) ?? {};
    if (typeof next !== "object" || Array.isArray(next))
      throw new UserError(`--set ${path}: ${part} is a value, not a group of keys.`);
    at[part] = next;
    at = next as ConfigObject;
  }
  at[last] = value;
}

export async function readRun({
  file,
  trust = "data",
  base,
  flags = {},
  set = [],
}: {
  readonly file?: string | undefined;
  readonly trust?: Trust;
  readonly base?: ModulePolicy & { readonly value: unknown; locate(path: KeyPath): string };
  /** Values by key (`train.batchSize`), each from the flag of the same name. */
  readonly flags?: Readonly<Record<string, unknown>>;
  readonly set?: readonly string[];
}): Promise<ResolvedRun> {
  const located = file === undefined ? (base ?? { value: {}, locate: () => "config" }) : await readYaml(file);
  const tree = toConfigObject(located.value, file);
  const origins = new Map<string, string>();
  for (const [path, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    setConfigValue(tree, path, value);
    origins.set(path, path === "methods" ? "--method" : toFlag(path));
  }
  for (const [path, value] of set.map(parseAssignment)) {
    setConfigValue(tree, path, value);
    origins.set(path, "--set");
  }
  // The flags are the user's own. A file may come from somebody else.
  const policy = origins.has("methods") ? userModules : (base ?? { trust, folder: "." });
  return resolveRun(tree, policy, (path) => {
    const prefixes = path.map((_, i) => path.slice(0, i + 1).join(".")).reverse();
    const origin = prefixes.find((prefix) => origins.has(prefix));
    return origin === undefined ? located.locate(path) : (origins.get(origin) as string);
  });
}

export async function readConfigFile(path: string): Promise<RunConfig> {
  const { value, locate } = await readYaml(path, { kind: "settings" });
  return validate(runConfigSchema, dropRemovedSettings(wrapStrings(value)), locate);
}

/** Leaves out settings that only earlier versions had, so that their runs can be read. */
function dropRemovedSettings(tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null || !("train" in tree)) return tree;
  if (typeof tree.train !== "object" || tree.train === null) return tree;
  const { focalGamma: _focal, headFirst: _head, ...train } = tree.train as Record<string, unknown>;
  return { ...tree, train };
}

function wrapStrings(tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null) return tree;
  const entries = Object.entries(tree).map(([key, value]) =>
    (key === "methods" || key === "textColumn") && typeof value === "string" ? [key, [value]] : [key, value],
  );
  return Object.fromEntries(entries);
}

const givenSchema = z.looseObject({ data: dataOptions.data });

/** A run before anything is loaded: everything below takes it as it is. */
export interface ResolvedRun {
  readonly config: RunConfig;
  readonly methods: readonly ResolvedMethod[];
  /** The examples themselves, if a program passed an array; otherwise the config names the data. */
  readonly data: readonly InMemoryExample[] | null;
  /** Settings that were filled in because a method needs them, in sentences. */
  readonly notes: readonly string[];
}

/** Modules that the user names are imported. */
export const userModules: ModulePolicy = { trust: "user", folder: "." };

/**
 * Checks the settings of a run, methods and their options included, and fills in the defaults. The
 * input is a tree of settings from flags, a file or a cell of a sweep, or the object of a program,
 * whose methods and data may be values instead of names.
 */
export async function resolveRun(
  input: unknown,
  policy: ModulePolicy,
  locate: (path: KeyPath) => string = () => "config",
): Promise<ResolvedRun> {
  const given: Record<string, unknown> = flattenData(validate(givenSchema, input, locate));
  const data = Array.isArray(given.data) ? (given.data as readonly InMemoryExample[]) : null;
  if (data && given.task)
    throw new UserError(
      `${locate(["task"])}: task cannot be combined with an array of examples. Leave one of them out.`,
    );
  const parsed = validate(runConfigSchema, wrapStrings(data ? { ...given, data: dataFile } : given), locate);
  const specs = parsed.methods.map((spec, i) =>
    spec.definition ? spec : { ...spec, name: resolveModule(spec.name, policy, locate(["methods", i])) },
  );
  const methods = resolveMethods(
    policy.trust === "none" ? specs.map(skipModule) : await loadMethods(specs),
    (i, name, path = []) => `${locate(["methods", i, name, ...path])}: methods[${i}] (${name})`,
  );
  const { config, notes } = fillRequirements(parsed, given, methods);
  // Clean accuracy would choose the least robust checkpoint of a robust run.
  const preferred = methods.findLast(({ definition }) => definition.bestModelMetric)?.definition.bestModelMetric;
  const isNamed = (given.train as { metricForBestModel?: unknown } | undefined)?.metricForBestModel !== undefined;
  const metricForBestModel = (isNamed ? undefined : preferred) ?? config.train.metricForBestModel;
  // A model that is used in another way than others is used by these options, whatever later
  // versions have as defaults.
  const recorded = new Map(methods.filter(({ definition }) => definition.certificate).map((each) => [each.name, each]));
  return {
    config: {
      ...config,
      train: { ...config.train, metricForBestModel },
      methods: specs.map(({ name, options }) => ({ name, options: recorded.get(name)?.options ?? options })),
      model: resolveLocalPath(config.model),
      data: data ? config.data : resolveLocalPath(config.data),
      validationData: resolveLocalPath(config.validationData),
      testData: resolveLocalPath(config.testData),
      substitutions: resolveTablePath(config.substitutions),
    },
    methods,
    data,
    notes,
  };
}

function fillRequirements(
  config: RunConfig,
  given: object,
  methods: readonly ResolvedMethod[],
): { readonly config: RunConfig; readonly notes: readonly string[] } {
  const isNamed = (key: string): boolean => (given as ConfigObject)[key] !== undefined;
  let filled = config;
  const notes: string[] = [];
  for (const { name, definition } of methods) {
    const missing = Object.entries(definition.requires ?? {}).filter(
      ([key, value]) => !isNamed(key) && filled[key as keyof RunConfig] !== value,
    );
    if (missing.length === 0) continue;
    filled = { ...filled, ...Object.fromEntries(missing) };
    const list = missing.map(([key, value]) => `${key}: ${value}`).join(" and ");
    const flags = missing.map(([key, value]) => `${toFlag(key)} ${value}`).join(" ");
    notes.push(`${name} needs ${list}. Nothing else was set, so this is used (${flags}).`);
  }
  return { config: filled, notes };
}

/** A method in a module that is not imported: its options are not checked. */
function skipModule(spec: MethodSpec): MethodSpec {
  const { name } = spec;
  if (spec.definition || !isModulePath(name)) return spec;
  const create = (): never => {
    throw new Error(`${name} was not imported`);
  };
  return { ...spec, definition: { name, summary: "a custom method", paper: "", options: z.looseObject({}), create } };
}

function toConfigObject(value: unknown, file: string | undefined): ConfigObject {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return structuredClone(value) as ConfigObject;
  const received = value === null ? "nothing" : Array.isArray(value) ? "a list" : typeof value;
  throw new UserError(`${file}: expected a config (keys and values), received ${received}.`);
}

export function resolveTablePath<T extends string | null>(path: T): T | string {
  if (path === null || existsSync(path)) return resolveLocalPath(path);
  const found = getDataRoots()
    .map((root) => join(root, "substitutions", path))
    .find((candidate) => existsSync(candidate));
  return resolveLocalPath(found ?? path);
}

/**
 * An absolute path, so that the config can be read from another folder. What is not a path here
 * stays as it is.
 */
function resolveLocalPath<T extends string | null>(path: T): T | string {
  return path !== null && existsSync(path) ? resolve(path) : path;
}
