import { UserError } from "../errors.js";
import { type RunConfig, toMethodSpecs } from "../runs/config.js";

export type ConfigObject = Record<string, unknown>;
export type KeyPath = readonly PropertyKey[];

export function isConfigObject(value: unknown): value is ConfigObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Settings laid over one another, each remembering where in the file it came from. */
export class ConfigOverlay {
  readonly config: ConfigObject = {};
  readonly #origins = new Map<string, KeyPath>();

  /** Lays `patch`, which stands at `from` in the file, over what is there: keys of keys are merged, anything else is replaced. */
  add(patch: ConfigObject, from: KeyPath): this {
    this.#merge(this.config, patch, [], from);
    return this;
  }

  /** Sets one key of a grid. `method.NAME.OPTION` reaches an option of that method in the list. */
  set(key: string, value: unknown, from: KeyPath, where: (path: KeyPath) => string): this {
    const parts = key.split(".");
    if (parts[0] === "method" && parts.length > 1) return this.#setOption(key, parts.slice(1), value, from, where);
    const patch: ConfigObject = {};
    let at = patch;
    for (const part of parts.slice(0, -1)) at = at[part] = {};
    at[parts.at(-1) as string] = structuredClone(value);
    this.#merge(this.config, patch, [], from, true);
    return this;
  }

  /** Where in the file a key of the tree came from. */
  getOrigin(path: KeyPath): KeyPath {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(path.slice(0, length).join("."));
      if (origin) return [...origin, ...path.slice(length)];
    }
    return path;
  }

  #merge(into: ConfigObject, patch: ConfigObject, path: KeyPath, from: KeyPath, whole = false): void {
    for (const [key, value] of Object.entries(patch)) {
      const here = [...path, key];
      const origin = whole ? from : [...from, key];
      if (isConfigObject(value) && (isConfigObject(into[key]) || whole)) {
        const inner = isConfigObject(into[key]) ? into[key] : {};
        into[key] = inner;
        this.#merge(inner, value, here, origin, whole);
        continue;
      }
      into[key] = structuredClone(value);
      for (const known of this.#origins.keys()) if (known.startsWith(`${here.join(".")}.`)) this.#origins.delete(known);
      this.#origins.set(here.join("."), origin);
    }
  }

  #setOption(
    key: string,
    [name, option, ...rest]: readonly string[],
    value: unknown,
    from: KeyPath,
    where: (path: KeyPath) => string,
  ): this {
    const list = Array.isArray(this.config.method) ? (this.config.method as RunConfig["methods"]) : [];
    const choices = toMethodSpecs(list);
    const index = choices.findIndex((choice) => choice.name === name);
    if (name === undefined || option === undefined || index < 0 || rest.length > 0)
      throw new UserError(
        `${where(from)}: ${key}: expected method.NAME.OPTION with a method of the list, which has ${choices.map((choice) => choice.name).join(", ") || "none"}`,
      );
    this.config.method = choices.map((choice, i) => ({
      [choice.name]: i === index ? { ...choice.options, [option]: value } : { ...choice.options },
    }));
    this.#origins.set(["method", index, name, option].join("."), from);
    return this;
  }
}
