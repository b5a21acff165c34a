import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { UserError } from "../errors.js";
import { loadMethods, type MethodSpec, resolveMethods } from "../methods/index.js";
import { getDataRoots } from "../tasks/find-dataset.js";
import { validate } from "../validate.js";
import { type KeyPath, parseAssignment, readYaml, splitKey } from "../yaml.js";
import { type RunConfig, runConfigSchema } from "./config.js";

/** A tree of settings. */
export type ConfigObject = Record<string, unknown>;

/** Sets `a.b.c` in a tree of plain objects. */
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

/** Where the settings of a run come from. Later sources override earlier ones. */
export interface ConfigSources {
  readonly file?: string | undefined;
  /** A complete config instead of a file: that of a run to resume, or of a cell of a sweep. */
  readonly base?: RunConfig;
  /** Values by key (`train.batchSize`), each from the flag of the same name. */
  readonly flags?: Readonly<Record<string, unknown>>;
  /** `--set` assignments. */
  readonly set?: readonly string[];
}

/**
 * Reads the settings of a run from a file and flags. Mistakes are reported with the file's line or
 * the flag.
 */
export async function readRunConfig({ file, base, flags = {}, set = [] }: ConfigSources): Promise<RunConfig> {
  const located = file === undefined ? { value: base ?? {}, locate: () => "config" } : await readYaml(file);
  const tree = toConfigObject(located.value, file);
  const origins = new Map<string, string>();
  for (const [path, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    setConfigValue(tree, path, value);
    origins.set(path, toFlagName(path));
  }
  for (const [path, value] of set.map(parseAssignment)) {
    setConfigValue(tree, path, value);
    origins.set(path, "--set");
  }
  return resolveRunConfig(tree, (path) => {
    const prefixes = path.map((_, i) => path.slice(0, i + 1).join(".")).reverse();
    const origin = prefixes.find((prefix) => origins.has(prefix));
    return origin === undefined ? located.locate(path) : (origins.get(origin) as string);
  });
}

/**
 * Reads the config of a run folder as it was written: complete, with methods that need not be known
 * here.
 */
export async function readConfigFile(path: string): Promise<RunConfig> {
  const { value, locate } = await readYaml(path);
  return validate(runConfigSchema, wrapStrings(value), locate);
}

/** Where a list is expected, a string is a list of one, as on the command line. */
function wrapStrings(tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null) return tree;
  const entries = Object.entries(tree).map(([key, value]) =>
    (key === "methods" || key === "textColumn") && typeof value === "string" ? [key, [value]] : [key, value],
  );
  return Object.fromEntries(entries);
}

/** Checks the settings of a run, methods and their options included, and fills in the defaults. */
export async function resolveRunConfig(
  tree: unknown,
  locate: (path: KeyPath) => string,
  definitions: readonly MethodSpec[] = [],
): Promise<RunConfig> {
  const config = validate(runConfigSchema, wrapStrings(tree), locate);
  const specs = await loadMethods(attachDefinitions(config.methods, definitions));
  const methods = resolveMethods(
    specs,
    (i, name, path = []) => `${locate(["methods", i, name, ...path])}: methods[${i}] (${name})`,
  );
  // Clean accuracy would choose the least robust checkpoint of a robust run.
  const isNamed = (tree as { train?: { metricForBestModel?: unknown } }).train?.metricForBestModel !== undefined;
  const preferred = methods.findLast(({ definition }) => definition.bestModelMetric)?.definition.bestModelMetric;
  const metricForBestModel = (isNamed ? undefined : preferred) ?? config.train.metricForBestModel;
  // A model that is used in another way than others is used by these options, whatever later
  // versions have as defaults.
  const recorded = new Map(methods.filter(({ definition }) => definition.certificate).map((each) => [each.name, each]));
  return {
    ...config,
    train: { ...config.train, metricForBestModel },
    methods: config.methods.map(({ name, options, ...rest }) => ({
      ...{ name: resolveModulePath(name), options: recorded.get(name)?.options ?? options },
      ...rest,
    })),
    model: resolveLocalPath(config.model),
    data: resolveLocalPath(config.data),
    validationData: resolveLocalPath(config.validationData),
    testData: resolveLocalPath(config.testData),
    substitutions: resolveTablePath(config.substitutions),
  };
}

/** Gives methods that are named in a config the definitions that a program passed along. */
export function attachDefinitions(specs: readonly MethodSpec[], given: readonly MethodSpec[]): MethodSpec[] {
  return specs.map((spec) => {
    const definition = given.find(({ name }) => name === spec.name)?.definition;
    return definition ? { ...spec, definition } : spec;
  });
}

function toConfigObject(value: unknown, file: string | undefined): ConfigObject {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return structuredClone(value) as ConfigObject;
  const received = value === null ? "nothing" : Array.isArray(value) ? "a list" : typeof value;
  throw new UserError(`${file}: expected a config (keys and values), received ${received}.`);
}

/** The flag of a key: train.batchSize is --batch-size. */
function toFlagName(path: string): string {
  const name = path === "methods" ? "method" : path.slice(path.lastIndexOf(".") + 1);
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * The path of a substitutions file: as given, or by its name in a data folder (substitutions/NAME).
 */
export function resolveTablePath<T extends string | null>(path: T): T | string {
  if (path === null || existsSync(path)) return resolveLocalPath(path);
  const found = getDataRoots()
    .map((root) => join(root, "substitutions", path))
    .find((candidate) => existsSync(candidate));
  return resolveLocalPath(found ?? path);
}

/** The absolute path of a method's module; other names stay as they are. */
function resolveModulePath(name: string): string {
  return /\.[cm]?[jt]s$/.test(name) ? resolve(name) : name;
}

/**
 * An absolute path, so that the config can be read from another folder. What is not a path here
 * stays as it is.
 */
export function resolveLocalPath<T extends string | null>(path: T): T | string {
  return path !== null && existsSync(path) ? resolve(path) : path;
}
