import { Option } from "@commander-js/extra-typings";
import { type HttpVictimOptions, httpVictimSchema } from "../attacks/http-victim.js";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { parseScalar } from "../runs/config.js";
import { appendValue } from "./options.js";

const { headers: _, ...settings } = httpVictimSchema.shape;
const endpointKeys = [...Object.keys(settings), "header"];

/** How a verb that takes an address asks there. */
export const endpointOption = () =>
  new Option(
    "--endpoint <key=value>",
    `how an endpoint is asked: ${endpointKeys.join(", ")} (name: value); may be repeated`,
  ).argParser(appendValue);

/** The settings that assignments name; their values are checked when the endpoint is opened. */
export function parseEndpointOptions(assignments: readonly string[] = []): HttpVictimOptions {
  const headers: Record<string, string> = {};
  const given: Record<string, unknown> = {};
  for (const assignment of assignments) {
    const [, key, value] = /^(\w+)=(.*)$/s.exec(assignment) ?? [];
    if (key === undefined || value === undefined)
      throw new UserError(`--endpoint: expected key=value (timeout=60), received "${assignment}"`);
    if (!endpointKeys.includes(key))
      throw new UserError(
        `--endpoint ${assignment}: there is no such key${didYouMean(key, endpointKeys)}; the keys are ${endpointKeys.join(", ")}`,
      );
    if (key !== "header") given[key] = key === "unknown" ? value : parseScalar(value);
    else {
      const [, name, content] = /^([\w-]+):\s*(.*)$/.exec(value) ?? [];
      if (name === undefined)
        throw new UserError(`--endpoint: expected "header=name: value", received "${assignment}"`);
      headers[name] = content ?? "";
    }
  }
  return { ...given, ...(Object.keys(headers).length > 0 && { headers }) };
}
