import { isAbsolute, resolve } from "node:path";
import { isMap, isNode, isPair, isSeq, LineCounter, parseDocument } from "yaml";
import { UserError } from "../errors.js";
import { readText } from "../files.js";
import { validate, type Where } from "../validate.js";
import { parseScalar, type RunConfig, runConfigSchema } from "./config.js";

/** A YAML file's content, and where each part of it stands. */
export interface Located {
  readonly value: unknown;
  readonly where: Where;
}

/** Reads a YAML file; a mistake in it is named by file:line:column. */
export async function readYaml(path: string): Promise<Located> {
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

/** Sets `a.b.c=value` in a tree of plain objects. */
export function setPath(tree: Record<string, unknown>, path: string, value: unknown): void {
  const parts = path.split(".");
  const last = parts.pop() as string;
  let at = tree;
  for (const part of parts) {
    const next = at[part] ?? {};
    if (typeof next !== "object" || Array.isArray(next)) throw new UserError(`--set ${path}: ${part} holds a value, not keys`);
    at[part] = next;
    at = next as Record<string, unknown>;
  }
  at[last] = value;
}

/** Applies `--set key=value` assignments. */
export function applySettings(tree: Record<string, unknown>, assignments: readonly string[]): void {
  for (const assignment of assignments) {
    const equals = assignment.indexOf("=");
    if (equals < 1) throw new UserError(`--set: expected KEY=VALUE (train.learningRate=3e-5), received ${assignment}`);
    setPath(tree, assignment.slice(0, equals), parseScalar(assignment.slice(equals + 1)));
  }
}

export interface ConfigSources {
  /** A YAML file, if any. */
  readonly file?: string | undefined;
  /** Values from flags, over the file's. */
  readonly flags?: Readonly<Record<string, unknown>>;
  /** `--set` assignments, over both. */
  readonly set?: readonly string[];
}

/** The resolved config of a run. */
export async function readRunConfig({ file, flags = {}, set = [] }: ConfigSources): Promise<RunConfig> {
  const located = file === undefined ? { value: {}, where: "config" } : await readYaml(file);
  if (typeof located.value !== "object" || located.value === null || Array.isArray(located.value))
    throw new UserError(
      `${file}: expected a config (keys and values), received ${Array.isArray(located.value) ? "a list" : typeof located.value}`,
    );
  const tree = structuredClone(located.value) as Record<string, unknown>;
  for (const [path, value] of Object.entries(flags)) if (value !== undefined) setPath(tree, path, value);
  applySettings(tree, set);
  return validate(runConfigSchema, tree, located.where);
}

/** A path that stays right when the config is read from elsewhere. */
export function absolute(path: string): string {
  return isAbsolute(path) ? path : resolve(path);
}
