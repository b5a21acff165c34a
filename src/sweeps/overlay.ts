import { UserError } from "../errors.js";
import { methodChoices, type RunConfig } from "../runs/config.js";

export type Tree = Record<string, unknown>;
export type Path = readonly PropertyKey[];

export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Settings laid over one another, each remembering where in the file it came from. */
export class Overlay {
  readonly tree: Tree = {};
  readonly #origins = new Map<string, Path>();

  /** Lays `patch`, which stands at `from` in the file, over what is there: keys of keys are merged, anything else is replaced. */
  add(patch: Tree, from: Path): this {
    this.#merge(this.tree, patch, [], from);
    return this;
  }

  /** Sets one key of a grid. `method.NAME.OPTION` reaches an option of that method in the list. */
  set(key: string, value: unknown, from: Path, where: (path: Path) => string): this {
    const parts = key.split(".");
    if (parts[0] === "method" && parts.length > 1) return this.#setOption(key, parts.slice(1), value, from, where);
    const patch: Tree = {};
    let at = patch;
    for (const part of parts.slice(0, -1)) at = at[part] = {};
    at[parts.at(-1) as string] = structuredClone(value);
    this.#merge(this.tree, patch, [], from, true);
    return this;
  }

  /** Where in the file a key of the tree came from. */
  originOf(path: Path): Path {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(path.slice(0, length).join("."));
      if (origin) return [...origin, ...path.slice(length)];
    }
    return path;
  }

  #merge(into: Tree, patch: Tree, path: Path, from: Path, whole = false): void {
    for (const [key, value] of Object.entries(patch)) {
      const here = [...path, key];
      const origin = whole ? from : [...from, key];
      if (isTree(value) && (isTree(into[key]) || whole)) {
        const inner = isTree(into[key]) ? into[key] : {};
        into[key] = inner;
        this.#merge(inner, value, here, origin, whole);
        continue;
      }
      into[key] = structuredClone(value);
      for (const known of this.#origins.keys()) if (known.startsWith(`${here.join(".")}.`)) this.#origins.delete(known);
      this.#origins.set(here.join("."), origin);
    }
  }

  #setOption(key: string, [name, option, ...rest]: readonly string[], value: unknown, from: Path, where: (path: Path) => string): this {
    const list = Array.isArray(this.tree.method) ? (this.tree.method as RunConfig["method"]) : [];
    const choices = methodChoices(list);
    const index = choices.findIndex((choice) => choice.name === name);
    if (name === undefined || option === undefined || index < 0 || rest.length > 0)
      throw new UserError(
        `${where(from)}: ${key}: expected method.NAME.OPTION with a method of the list, which has ${choices.map((choice) => choice.name).join(", ") || "none"}`,
      );
    this.tree.method = choices.map((choice, i) => ({
      [choice.name]: i === index ? { ...choice.options, [option]: value } : { ...choice.options },
    }));
    this.#origins.set(["method", index, name, option].join("."), from);
    return this;
  }
}
