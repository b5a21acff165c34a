import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { isMap, isNode, isPair, isSeq, LineCounter, parse, parseDocument } from "yaml";
import { UserError } from "../errors.js";
import { readText } from "../files.js";
import { createMethods } from "../methods/index.js";
import { getDataRoots } from "../tasks/find-dataset.js";
import { validate } from "../validate.js";
import { type RunConfig, runConfigSchema, toMethodSpecs } from "./config.js";

type ConfigObject = Record<string, unknown>;
type KeyPath = readonly PropertyKey[];

/** A YAML file's content, and where each part of it stands. */
export interface LocatedYaml {
  readonly value: unknown;
  readonly where: (path: KeyPath) => string;
}

/** Reads a YAML file; a mistake in it is named by file:line:column. */
export async function readYaml(path: string): Promise<LocatedYaml> {
  const lines = new LineCounter();
  const document = parseDocument(await readText(path, "the config"), { lineCounter: lines });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${path}:${line}:${col}`;
  };
  const [error] = document.errors;
  if (error) throw new UserError(`${at(error.pos[0])}: ${error.message.split("\n")[0]}`);
  return {
    value: document.toJS() as unknown,
    where(wanted) {
      let node: unknown = document.contents;
      let offset = 0;
      for (const part of wanted) {
        const pair: unknown = isMap(node) ? node.items.find((item) => String(item.key) === String(part)) : undefined;
        if (isPair(pair)) {
          if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset;
          node = pair.value;
        } else if (isSeq(node) && typeof part === "number") {
          node = node.items[part];
          if (isNode(node)) offset = node.range?.[0] ?? offset;
        } else break;
      }
      return at(offset);
    },
  };
}

/** Sets `a.b.c` in a tree of plain objects. */
function setConfigValue(tree: ConfigObject, path: string, value: unknown): void {
  const parts = path.split(".");
  const last = parts.pop() as string;
  let at = tree;
  for (const part of parts) {
    const next = at[part] ?? {};
    if (typeof next !== "object" || Array.isArray(next))
      throw new UserError(`--set ${path}: ${part} holds a value, not keys`);
    at[part] = next;
    at = next as ConfigObject;
  }
  at[last] = value;
}

/** KEY=VALUE with a value as YAML has it: 3e-5, true, null, [1, 0.5]. */
export function parseAssignment(assignment: string): [string, unknown] {
  const equals = assignment.indexOf("=");
  if (equals < 1) throw new UserError(`--set: expected KEY=VALUE (train.learningRate=3e-5), received ${assignment}`);
  const [path, text] = [assignment.slice(0, equals), assignment.slice(equals + 1)];
  try {
    return [path, parse(text) as unknown];
  } catch {
    return [path, text];
  }
}

export interface ConfigSources {
  /** A YAML file, if any. */
  readonly file?: string | undefined;
  /** Values from flags by their keys (train.batchSize), over the file's. */
  readonly flags?: Readonly<Record<string, unknown>>;
  /** `--set` assignments, over both. */
  readonly set?: readonly string[];
}

/** The resolved config of a run. A mistake is named by the place it came from: the file's line, or the flag. */
export async function readRunConfig({ file, flags = {}, set = [] }: ConfigSources): Promise<RunConfig> {
  const located = file === undefined ? { value: {}, where: () => "config" } : await readYaml(file);
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
  const where = (path: KeyPath): string => {
    const prefixes = path.map((_, i) => path.slice(0, i + 1).join(".")).reverse();
    const origin = prefixes.find((prefix) => origins.has(prefix));
    return origin === undefined ? located.where(path) : (origins.get(origin) as string);
  };
  return resolveRunConfig(tree, where);
}

/** Checks the settings of a run, methods and their options included, and fills in the defaults. */
export function resolveRunConfig(tree: unknown, where: (path: KeyPath) => string): RunConfig {
  const config = validate(runConfigSchema, tree, where);
  const methods = createMethods(
    toMethodSpecs(config.methods),
    (i, name, path = []) => `${where(["method", i, name, ...path])}: method[${i}] (${name})`,
  );
  // Clean accuracy would choose the least robust checkpoint of a robust run.
  const named = (tree as { train?: { selectBy?: unknown } }).train?.selectBy !== undefined;
  const selectBy =
    (named ? undefined : methods.findLast((method) => method.bestModelMetric)?.bestModelMetric) ??
    config.train.metricForBestModel;
  return {
    ...config,
    train: { ...config.train, metricForBestModel: selectBy },
    model: resolveLocalPath(config.model),
    data: resolveLocalPath(config.data),
    substitutions: resolveTablePath(config.substitutions),
  };
}

function toConfigObject(value: unknown, file: string | undefined): ConfigObject {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return structuredClone(value) as ConfigObject;
  const received = value === null ? "nothing" : Array.isArray(value) ? "a list" : typeof value;
  throw new UserError(`${file}: expected a config (keys and values), received ${received}`);
}

/** The flag of a key: train.batchSize is --batch-size. */
function toFlagName(path: string): string {
  const name = path.slice(path.lastIndexOf(".") + 1);
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The path of a substitution table: as it stands, or by its name among the data (substitutions/NAME). */
export function resolveTablePath<T extends string | null>(path: T): T | string {
  if (path === null || existsSync(path)) return resolveLocalPath(path);
  return resolveLocalPath(
    getDataRoots()
      .map((root) => join(root, "substitutions", path))
      .find((found) => existsSync(found)) ?? path,
  );
}

/** A path that stays right when the config is read again from another folder; what is no path here is left as it is. */
function resolveLocalPath<T extends string | null>(path: T): T | string {
  return path !== null && existsSync(path) ? resolve(path) : path;
}
