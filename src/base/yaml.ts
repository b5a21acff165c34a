import { type Document, isMap, isNode, isPair, isSeq, LineCounter, parse, parseDocument, visit } from "yaml";
import { getErrorMessage, UserError } from "./errors.js";
import { type FolderFile, readText } from "./files.js";
import { maxJsonDepth } from "./json.js";

export type KeyPath = readonly PropertyKey[];

/** A larger file is not a config, and would take long to parse. */
const maxCharacters = 4_000_000;

/** Assigning to these keys would change the prototype of all objects. */
const forbiddenKeys: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/**
 * Reads a YAML file. Errors are reported with file:line:column, and `locate` returns that of each
 * part.
 */
export async function readYaml(
  path: string,
  file?: FolderFile,
): Promise<{ value: unknown; locate: (path: KeyPath) => string }> {
  const text = await readText(path, "the config", file);
  if (text.length > maxCharacters)
    throw new UserError(`${path}: expected at most ${maxCharacters} characters, received ${text.length}.`);
  const lines = new LineCounter();
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${path}:${line}:${col}`;
  };
  const { document, value } = explainErrors(path, () => {
    const parsed = parseDocument(text, { lineCounter: lines, uniqueKeys: false });
    const [error] = parsed.errors;
    if (error) throw new UserError(`${at(error.pos[0])}: ${explainProblem(error.message)}`);
    rejectRepeatedKeys(parsed, at);
    return { document: parsed, value: checkTree(parsed.toJS() as unknown, path) };
  });
  return {
    value,
    locate(wanted) {
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

/** The parser compares every key with every other, which takes long if there are many. */
function rejectRepeatedKeys(document: Document, at: (offset: number) => string): void {
  visit(document, {
    Map(_, { items }) {
      const seen = new Set<string>();
      for (const { key } of items) {
        const name = String(key);
        if (seen.has(name))
          throw new UserError(`${at((isNode(key) && key.range?.[0]) || 0)}: the key ${name.slice(0, 80)} is repeated`);
        seen.add(name);
      }
    },
  });
}

/** Parses KEY=VALUE with a YAML value: 3e-5, true, null, [1, 0.5]. */
export function parseAssignment(assignment: string): [string, unknown] {
  const equals = assignment.indexOf("=");
  if (equals < 1) throw new UserError(`--set: expected KEY=VALUE (train.learningRate=3e-5), received ${assignment}.`);
  const [path, text] = [assignment.slice(0, equals), assignment.slice(equals + 1)];
  splitKey(path);
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    return [path, text];
  }
  return [path, checkTree(value, `--set ${path}`)];
}

export function splitKey(key: string): string[] {
  const parts = key.split(".");
  const forbidden = parts.find((part) => forbiddenKeys.has(part));
  if (forbidden !== undefined) throw new UserError(`${key.slice(0, 200)}: ${forbidden} is not a key of a config.`);
  return parts;
}

/** The parser throws its own errors for aliases, and exhausts the stack if a file is deep. */
function explainErrors<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${path}: ${explainProblem(getErrorMessage(error))}. Expected a config: keys and values.`, {
      cause: error,
    });
  }
}

function explainProblem(message: string): string {
  return /call stack/.test(message) ? "nested too deeply" : message.split("\n")[0]!;
}

/** Rejects trees that are cyclic or deep, and keys that are not safe to assign. */
function checkTree(tree: unknown, location: string): unknown {
  const check = (value: unknown, depth: number): void => {
    if (typeof value !== "object" || value === null) return;
    if (depth > maxJsonDepth)
      throw new UserError(`${location}: nested more than ${maxJsonDepth} levels deep. Aliases must not form a cycle.`);
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value) && forbiddenKeys.has(key))
        throw new UserError(`${location}: ${key} is not a key of a config. Remove it.`);
      check(inner, depth + 1);
    }
  };
  check(tree, 0);
  return tree;
}
