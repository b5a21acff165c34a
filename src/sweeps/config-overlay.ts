import { UserError } from "../base/errors.js";
import { type KeyPath, splitKey } from "../base/yaml.js";
import { runConfigSchema } from "../settings/config.js";
import type { ConfigObject } from "../settings/read-config.js";

export function isConfigObject(value: unknown): value is ConfigObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Settings merged in layers. Each setting remembers where in the file it came from. */
export class ConfigOverlay {
  readonly config: ConfigObject = {};
  readonly #origins = new Map<string, KeyPath>();

  /** Merges settings that are at `from` in the file: objects key by key, other values replaced. */
  add(settings: ConfigObject, from: KeyPath): this {
    this.#merge(this.config, settings, [], from);
    return this;
  }

  /** Sets one key. `methods.NAME.OPTION` sets an option of that method in the list. */
  set(key: string, value: unknown, from: KeyPath, locate: (path: KeyPath) => string): this {
    const parts = this.splitKey(key);
    if (parts[0] === "methods" && parts.length > 1)
      return this.#setMethodOption(key, parts.slice(1), value, from, locate);
    const settings = parts.reduceRight<unknown>((inner, part) => ({ [part]: inner }), structuredClone(value));
    this.#merge(this.config, settings as ConfigObject, [], from, true);
    return this;
  }

  /** Splits `a.b.c` into keys. A key that is there may contain dots: `rows.ptwd-0.3` has two. */
  splitKey(key: string): string[] {
    const keys: string[] = [];
    let parts = splitKey(key);
    for (
      let inner: unknown = this.config;
      parts.length > 0;
      inner = isConfigObject(inner) ? inner[keys.at(-1)!] : null
    ) {
      const prefixes = parts.map((_, i) => parts.slice(0, parts.length - i).join("."));
      const known = prefixes.find((prefix) => isConfigObject(inner) && Object.hasOwn(inner, prefix)) ?? parts[0]!;
      keys.push(known);
      parts = parts.slice(known.split(".").length);
    }
    return keys;
  }

  getOrigin(path: KeyPath): KeyPath {
    for (let length = path.length; length > 0; length--) {
      const origin = this.#origins.get(path.slice(0, length).join("."));
      if (origin) return [...origin, ...path.slice(length)];
    }
    return path;
  }

  /** With `isSingleOrigin`, every merged key came from `from` itself instead of a key below it. */
  #merge(into: ConfigObject, settings: ConfigObject, path: KeyPath, from: KeyPath, isSingleOrigin = false): void {
    for (const [key, value] of Object.entries(settings)) {
      const keyPath = [...path, key];
      const origin = isSingleOrigin ? from : [...from, key];
      if (isConfigObject(value) && (isConfigObject(into[key]) || isSingleOrigin)) {
        const inner = isConfigObject(into[key]) ? into[key] : {};
        into[key] = inner;
        this.#merge(inner, value, keyPath, origin, isSingleOrigin);
        continue;
      }
      const name = keyPath.join(".");
      if (Object.hasOwn(into, key))
        for (const known of this.#origins.keys()) if (known.startsWith(`${name}.`)) this.#origins.delete(known);
      into[key] = structuredClone(value);
      this.#origins.set(name, origin);
    }
  }

  #setMethodOption(
    key: string,
    [name, option, ...rest]: readonly string[],
    value: unknown,
    from: KeyPath,
    locate: (path: KeyPath) => string,
  ): this {
    const methods = runConfigSchema.shape.methods.safeParse([this.config.methods ?? []].flat()).data ?? [];
    const index = methods.findIndex((method) => method.name === name);
    if (name === undefined || option === undefined || index < 0 || rest.length > 0)
      throw new UserError(
        `${locate(from)}: ${key}: expected methods.NAME.OPTION with a method of the list. ` +
          `The methods are ${methods.map((method) => method.name).join(", ") || "none"}.`,
      );
    this.config.methods = methods.map((method, i) => ({
      [method.name]: i === index ? { ...method.options, [option]: value } : method.options,
    }));
    this.#origins.set(["methods", index, name, option].join("."), from);
    return this;
  }
}
