import { UserError } from "./errors.js";

/** A method or an attack by name, with its options. */
export interface Spec {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * Parses `NAME` or `NAME:key=value,…`. Values are numbers, true, false, null or strings.
 *
 * @param flag the option that the text comes from, for error messages
 * @example
 * parseSpec("genetic:population=20", "--attack");
 * // { name: "genetic", options: { population: 20 } }
 */
export function parseSpec(text: string, flag: string): Spec {
  const colon = text.indexOf(":");
  if (colon < 0) return { name: text, options: {} };
  const options: Record<string, unknown> = {};
  for (const pair of text.slice(colon + 1).split(",")) {
    const equals = pair.indexOf("=");
    if (equals < 0)
      throw new UserError(`${flag} ${text}: expected NAME:key=value,…, received "${pair}" without a value`);
    options[pair.slice(0, equals)] = parseScalar(pair.slice(equals + 1));
  }
  return { name: text.slice(0, colon), options };
}

/** Formats a spec as `parseSpec` reads it. */
export function formatSpec({ name, options }: Spec): string {
  const given = Object.entries(options).map(([key, value]) => `${key}=${value}`);
  return given.length > 0 ? `${name}:${given.join(",")}` : name;
}

/** Parses one value from a command line: a boolean, null, a number or a string. */
export function parseScalar(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  if (text === "null") return null;
  const number = Number(text);
  return text.trim() !== "" && !Number.isNaN(number) ? number : text;
}
