import { z } from "zod";
import { UserError } from "../base/errors.js";

export const httpVictimSchema = z.strictObject({
  batchSize: z.int().min(1).default(32).describe("texts per request"),
  maxConcurrentRequests: z.int().min(1).default(4).describe("maximum number of concurrent requests"),
  timeout: z.number().positive().default(30).describe("seconds to wait for a response"),
  retries: z.int().min(0).default(4).describe("how often to retry a failed request"),
  retryDelay: z.number().min(0).default(0.5).describe("seconds before the first retry; doubled each time"),
  requestsPerSecond: z.number().positive().optional().describe("rate limit"),
  unkToken: z.string().default("[UNK]").describe("replaces a masked word"),
  maxQueries: z.int().min(1).default(1_000_000).describe("maximum texts to send in all"),
  preset: z.enum(["tei", "transformers", "openai-moderation"]).optional().describe("how a well-known server is asked"),
  request: z.string().optional().describe('body of a request, such as {"inputs": $texts}; $text is the only text'),
  labels: z.string().optional().describe("JSONPath of the labels in an answer, such as $[*].label"),
  scores: z.string().optional().describe("JSONPath of the scores in an answer, such as $[*].score"),
  classes: z
    .union([z.string().transform((names) => names.split(",").map((name) => name.trim())), z.array(z.string())])
    .optional()
    .describe("labels of the endpoint in the order of the task's: ham,spam"),
  headers: z
    .record(z.string(), z.string())
    .default({})
    .describe("headers of every request; env:VARIABLE is read from the environment"),
});
export type HttpVictimOptions = z.input<typeof httpVictimSchema>;
export type ParsedHttpVictimOptions = z.output<typeof httpVictimSchema>;

/** The address of requests, and a form of it for messages and files. */
export interface Endpoint {
  readonly shown: string;
  readonly url: string;
  readonly headers: Headers;
}

/** Checks the URL and the headers, and reads secrets from the environment. */
export function resolveEndpoint(url: string, options: ParsedHttpVictimOptions): Endpoint {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UserError(`endpoint: expected a URL like http://127.0.0.1:8080/predict, received "${redactUrl(url)}"`);
  const target = new URL(url);
  const headers = new Headers({ "content-type": "application/json" });
  // fetch does not accept a URL with a password.
  if (target.username !== "" || target.password !== "") {
    const user = `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}`;
    headers.set("authorization", `Basic ${Buffer.from(user).toString("base64")}`);
    target.username = "";
    target.password = "";
  }
  for (const [name, value] of Object.entries(options.headers)) {
    const content = resolveSecret(name, value);
    try {
      headers.set(name, content);
    } catch (error) {
      // The message of the cause would show the value.
      throw new UserError(`endpoint: header ${JSON.stringify(name)}: the name or the value is not valid.`, {
        cause: (error as Error).name,
      });
    }
  }
  return { shown: redactUrl(url), url: target.href, headers };
}

function resolveSecret(name: string, value: string): string {
  const variable = /^env:(.*)$/.exec(value)?.[1];
  if (variable === undefined) return value;
  const content = process.env[variable];
  if (content === undefined)
    throw new UserError(`endpoint: header ${name}: the environment variable ${variable} is not set. Export it first.`);
  return content;
}

/** The URL without its parts that can contain secrets: user, password, query and fragment. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return url.replace(/\/\/[^/@]*@/, "//").replace(/[?#].*$/s, "");
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** Options for files: without the values of headers, unless they name a variable. */
export function redactOptions(options: ParsedHttpVictimOptions): ParsedHttpVictimOptions {
  const headers = Object.entries(options.headers).map(([name, value]) => [
    name,
    /^env:/.test(value) ? value : "(not recorded)",
  ]);
  return { ...options, headers: Object.fromEntries(headers) };
}
