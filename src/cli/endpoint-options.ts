import { Option } from "@commander-js/extra-typings";
import { type HttpVictimOptions, httpVictimOptions } from "../attacks/http-victim.js";
import { UserError } from "../errors.js";
import { didYouMean } from "../near-miss.js";
import { parseScalar } from "../runs/config.js";
import { collect } from "./options.js";

const { headers: _, ...settings } = httpVictimOptions.shape;
const keys = [...Object.keys(settings), "header"];

/** How a verb that takes an address asks there. */
export const endpointOption = () =>
  new Option("--endpoint <key=value>", `how an endpoint is asked: ${keys.join(", ")} (name: value); may be repeated`).argParser(collect);

/** The settings that assignments name; their values are checked when the endpoint is opened. */
export function endpointOf(assignments: readonly string[] = []): HttpVictimOptions {
  const headers: Record<string, string> = {};
  const given: Record<string, unknown> = {};
  for (const assignment of assignments) {
    const [, key, value] = /^(\w+)=(.*)$/s.exec(assignment) ?? [];
    if (key === undefined || value === undefined)
      throw new UserError(`--endpoint: expected key=value (timeout=60), received "${assignment}"`);
    if (!keys.includes(key))
      throw new UserError(`--endpoint ${assignment}: there is no such key${didYouMean(key, keys)}; the keys are ${keys.join(", ")}`);
    if (key !== "header") given[key] = key === "unknown" ? value : parseScalar(value);
    else {
      const [, name, content] = /^([\w-]+):\s*(.*)$/.exec(value) ?? [];
      if (name === undefined) throw new UserError(`--endpoint: expected "header=name: value", received "${assignment}"`);
      headers[name] = content ?? "";
    }
  }
  return { ...given, ...(Object.keys(headers).length > 0 && { headers }) };
}
