import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { getErrorMessage, UserError } from "../errors.js";
import { validate } from "../validate.js";
import type { PreparedInput, Victim, VictimInput } from "./victim.js";

export const httpVictimSchema = z.strictObject({
  batchSize: z.int().min(1).default(32).describe("texts a request"),
  maxConcurrentRequests: z.int().min(1).default(4).describe("requests at once"),
  timeout: z.number().positive().default(30).describe("seconds to wait for an answer"),
  retries: z.int().min(0).default(4).describe("times a failed request is tried again"),
  retryDelay: z.number().min(0).default(0.5).describe("seconds before the first retry; doubled each time"),
  requestsPerSecond: z.number().positive().optional().describe("rate limit"),
  unkToken: z.string().default("[UNK]").describe("what stands for a hidden word"),
  headers: z.record(z.string(), z.string()).default({}).describe("headers of every request (authorisation, say)"),
});
export type HttpVictimOptions = z.input<typeof httpVictimSchema>;
type Options = z.output<typeof httpVictimSchema>;

interface PreparedText extends PreparedInput {
  readonly content: string;
  /** One text, or a pair as a list. */
  readonly text: string | readonly string[];
}

/** A failure that may pass: the network, a time-out, a busy server. */
class TransientError extends Error {
  constructor(
    message: string,
    readonly waitSeconds = 0,
  ) {
    super(message);
  }
}

/** Any HTTP endpoint that takes {"texts": […]} and returns one row of probabilities a text ([[…]] or {"probabilities": [[…]]}). */
export async function createHttpVictim(url: string, raw: HttpVictimOptions = {}): Promise<Victim<PreparedText>> {
  const options = validate(httpVictimSchema, raw, "endpoint");
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UserError(`endpoint: expected an address like http://127.0.0.1:8080/predict, received "${url}"`);
  const waitForTurn = createRateLimiter(options.requestsPerSecond);
  const ask = (texts: readonly (string | readonly string[])[], classes?: number) =>
    postWithRetries(url, options, waitForTurn, texts, classes);
  // One question shows at once whether anyone answers, and how many classes there are.
  const [probe] = await ask(["hello"]);
  const hash = createHash("sha256").update(`http ${url}`).digest("hex");
  return {
    name: url,
    numLabels: probe!.length,
    hash,
    hashes: { model: hash },
    isDeterministic: false,
    maxBatchSize: options.batchSize * options.maxConcurrentRequests,
    prepare(input: VictimInput) {
      const texts = input.texts(options.unkToken);
      return {
        content: JSON.stringify(texts),
        text: texts.length === 1 ? texts[0]! : texts,
        length: input.words.length,
      };
    },
    async probabilities(inputs) {
      const starts = Array.from(
        { length: Math.ceil(inputs.length / options.batchSize) },
        (_, i) => i * options.batchSize,
      );
      const texts = inputs.map(({ text }) => text);
      return (
        await Promise.all(starts.map((start) => ask(texts.slice(start, start + options.batchSize), probe!.length)))
      ).flat();
    },
  };
}

/** Requests start at least 1/rate seconds apart. */
function createRateLimiter(perSecond: number | undefined): () => Promise<void> {
  let next = 0;
  return async () => {
    if (perSecond === undefined) return;
    const now = performance.now();
    const start = Math.max(now, next);
    next = start + 1000 / perSecond;
    if (start > now) await sleep(start - now);
  };
}

async function postWithRetries(
  url: string,
  options: Options,
  waitForTurn: () => Promise<void>,
  texts: readonly (string | readonly string[])[],
  classes: number | undefined,
): Promise<Float32Array[]> {
  for (let attempt = 0; ; attempt++) {
    await waitForTurn();
    try {
      return parseRows(await post(url, options, texts), texts.length, classes, url);
    } catch (error) {
      if (!(error instanceof TransientError)) throw error;
      if (attempt === options.retries) {
        throw new UserError(
          `${url}: ${error.message}, ${attempt + 1} times in a row; check that the endpoint runs and is reachable`,
          {
            cause: error,
          },
        );
      }
      await sleep(1000 * Math.max(error.waitSeconds, options.retryDelay * 2 ** attempt));
    }
  }
}

async function post(url: string, options: Options, texts: readonly (string | readonly string[])[]): Promise<string> {
  let response: Response;
  let body: string;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...options.headers },
      body: JSON.stringify({ texts }),
      // Followed, most redirections would ask again by GET, without the texts, and take the headers to another host.
      redirect: "manual",
      signal: AbortSignal.timeout(1000 * options.timeout),
    });
    body = await response.text();
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError")
      throw new TransientError(`no answer within ${options.timeout} s`);
    const cause = error instanceof Error && error.cause !== undefined ? getErrorMessage(error.cause) : "";
    throw new TransientError(`${getErrorMessage(error)}${cause && ` (${cause})`}`);
  }
  if (response.status === 429 || response.status >= 500)
    throw new TransientError(`status ${response.status}`, parseRetryAfter(response));
  const elsewhere = response.headers.get("location");
  if (response.status >= 300 && response.status < 400 && elsewhere !== null)
    throw new UserError(`${url}: this address redirects to ${new URL(elsewhere, url)}; give the one that answers`);
  if (!response.ok)
    throw new UserError(`${url}: expected status 200, received ${response.status}: ${truncateText(body)}`);
  return body;
}

/** Seconds that a busy server asks for, as such or by a date; never more than a minute. */
function parseRetryAfter(response: Response): number {
  const asked = response.headers.get("retry-after") ?? "";
  const seconds = /^\s*\d/.test(asked) ? Number(asked) : (Date.parse(asked) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(60, Math.max(0, seconds)) : 0;
}

function parseRows(body: string, count: number, classes: number | undefined, url: string): Float32Array[] {
  const wanted = `expected a list of ${count} rows of probabilities ([[0.1, 0.9], …] or {"probabilities": [[0.1, 0.9], …]})`;
  if (body.trim() === "") throw new UserError(`${url}: ${wanted}, received an empty answer`);
  let data: unknown;
  try {
    data = JSON.parse(body);
  } catch {
    const kind = /^\s*</.test(body) ? "HTML (is the address that of a page?)" : "no JSON (NaN and Infinity are none)";
    throw new UserError(`${url}: ${wanted}, received ${kind}: ${truncateText(body)}`);
  }
  const rows = typeof data === "object" && data !== null && "probabilities" in data ? data.probabilities : data;
  if (!Array.isArray(rows) || rows.length !== count)
    throw new UserError(`${url}: ${wanted}, received ${truncateText(body)}`);
  return rows.map((row, i) =>
    parseRow(row, classes ?? (Array.isArray(rows[0]) ? rows[0].length : 0), `${url}: row ${i}`),
  );
}

function parseRow(row: unknown, classes: number, where: string): Float32Array {
  const isRow =
    Array.isArray(row) && row.length === classes && row.length >= 2 && row.every((value) => typeof value === "number");
  if (!isRow)
    throw new UserError(
      `${where}: expected ${Math.max(2, classes)} probabilities, received ${truncateText(JSON.stringify(row))}`,
    );
  const values = row as number[];
  const total = values.reduce((sum, value) => sum + value, 0);
  if (values.some((value) => value < -1e-6 || value > 1 + 1e-6) || Math.abs(total - 1) > 0.01) {
    throw new UserError(
      `${where}: expected probabilities that sum to 1, received ${truncateText(JSON.stringify(row))}; are these logits? apply a softmax`,
    );
  }
  return Float32Array.from(values);
}

function truncateText(text: string): string {
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}
