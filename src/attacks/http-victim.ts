import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { getErrorMessage, UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { validate } from "../base/validate.js";
import { splitCalls } from "../models/inference/predict-in-calls.js";
import type { Identified } from "../models/inference/predictor.js";
import {
  type Endpoint,
  type HttpVictimOptions,
  httpVictimSchema,
  type ParsedHttpVictimOptions,
  redactUrl,
  resolveEndpoint,
} from "./endpoint.js";
import { readMappedRows, resolveMapping, writeBody } from "./endpoint-answers.js";
import { type PlainInput, type PlainText, preparePlainTexts, type Victim } from "./victim.js";

/** Probabilities need far less. More is an error or an attack on our memory. */
const maxAnswerBytes = 16 << 20;
const maxRetryDelaySeconds = 60;

/** A failure that a retry may fix: the network, a timeout, a busy server. */
class TransientError extends Error {
  constructor(
    message: string,
    readonly waitSeconds = 0,
    readonly remedy = "Check that the endpoint is running and reachable.",
  ) {
    super(message);
  }
}

/**
 * Connects to an HTTP endpoint that accepts `{"texts": […]}` and returns one row of class
 * probabilities per text, as `[[…]]` or `{"probabilities": [[…]]}`. Other endpoints need a preset, or
 * `request`, `labels` and `scores`.
 *
 * @example
 * const victim = await connectHttpVictim("http://127.0.0.1:8080/predict", { batchSize: 16 });
 */
export async function connectHttpVictim(
  url: string,
  rawOptions: HttpVictimOptions = {},
  callbacks: Pick<Callbacks, "onEvent"> = {},
): Promise<Victim<PlainInput> & Identified & { readonly labels: readonly string[] | null }> {
  const options = validate(httpVictimSchema, rawOptions, "endpoint");
  const endpoint = resolveEndpoint(url, options);
  const { shown } = endpoint;
  const mapping = resolveMapping(options);
  let classes = mapping?.classes ?? null;
  let isLogits = false;
  const waitForTurn = createRateLimiter(options.requestsPerSecond);
  let queries = 0;
  const query = async (texts: readonly PlainText[], numLabels?: number): Promise<Float32Array[]> => {
    queries += texts.length;
    if (queries > options.maxQueries)
      throw new UserError(
        `${shown}: the limit of ${options.maxQueries} queries is reached. Every finished example is in its journal. ` +
          "To continue, pass --resume and --endpoint maxQueries=N with a larger N.",
      );
    for (let attempt = 0; ; attempt++) {
      await waitForTurn();
      try {
        const body = mapping ? writeBody(mapping.request, texts) : JSON.stringify({ texts });
        const data = parseAnswer(await post(endpoint, options, body), shown);
        if (!mapping) return parseRows(data, texts.length, numLabels, shown);
        const mapped = readMappedRows(data, texts.length, { ...mapping, classes, isLogits }, shown);
        if (mapped.isLogits && !isLogits)
          warn(
            callbacks,
            `${shown}: some scores are not between 0 and 1, so they are no probabilities. Their softmax is used, which ` +
              "keeps their order; the numbers themselves say nothing about confidence.",
          );
        ({ classes, isLogits } = mapped);
        return parseRows(mapped.rows, texts.length, numLabels, shown);
      } catch (error) {
        if (!(error instanceof TransientError)) throw error;
        if (attempt === options.retries) {
          const failure = `${shown} failed ${attempt + 1} times in a row (${error.message})`;
          throw new UserError(`${failure}. ${error.remedy}`, { cause: error });
        }
        const delay = Math.min(maxRetryDelaySeconds, options.retryDelay * 2 ** attempt);
        await sleep(1000 * Math.max(error.waitSeconds, delay));
      }
    }
  };
  // One request shows whether the endpoint responds, and how many classes it has.
  const [probe] = await query(["hello"]);
  const numLabels = probe!.length;
  const hash = createHash("sha256")
    .update(`http ${url}${mapping ? JSON.stringify(mapping) : ""}`)
    .digest("hex");
  return splitCalls({
    name: shown,
    numLabels,
    labels: classes,
    hash,
    hashes: { model: hash },
    isDeterministic: false,
    unkToken: options.unkToken,
    callLimits: { maxTexts: options.batchSize * options.maxConcurrentRequests },
    prepare: preparePlainTexts,
    async predict(items: readonly PlainInput[]) {
      const texts = items.map(({ text }) => text);
      const requests: Promise<Float32Array[]>[] = [];
      for (let start = 0; start < texts.length; start += options.batchSize)
        requests.push(query(texts.slice(start, start + options.batchSize), numLabels));
      return (await Promise.all(requests)).flat().map((probabilities) => ({ probabilities }));
    },
  });
}

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

async function post(
  { url, shown, headers }: Endpoint,
  options: ParsedHttpVictimOptions,
  request: string,
): Promise<string> {
  let response: Response;
  let body: string;
  try {
    response = await fetch(url, {
      method: "POST",
      headers,
      body: request,
      // Most redirects would repeat the request as GET without the texts, and leak the headers to
      // another host.
      redirect: "manual",
      signal: AbortSignal.timeout(1000 * options.timeout),
    });
    body = await readAnswer(response, shown);
  } catch (error) {
    if (error instanceof UserError) throw error;
    if (error instanceof Error && error.name === "TimeoutError")
      throw new TransientError(`no response within ${options.timeout} s`);
    const cause = error instanceof Error && error.cause !== undefined ? getErrorMessage(error.cause) : "";
    throw new TransientError(`${getErrorMessage(error)}${cause && ` (${cause})`}`);
  }
  const { status } = response;
  const remedy =
    status === 429
      ? "It limits the rate of requests: set --endpoint requestsPerSecond=N, wait, and continue with --resume."
      : undefined;
  if (status === 429 || status >= 500) throw new TransientError(`status ${status}`, parseRetryAfter(response), remedy);
  const location = response.headers.get("location");
  if (status >= 300 && status < 400 && location !== null) {
    const target = URL.canParse(location, url) ? new URL(location, url).href : location;
    throw new UserError(`${shown} redirects to ${truncateText(redactUrl(target))}. Use that URL instead.`);
  }
  if (!response.ok) throw new UserError(`${shown}: expected status 200, received ${status}: ${truncateText(body)}`);
  return body;
}

/** Reads an answer of bounded size. Compressed answers count with their real size. */
async function readAnswer(response: Response, shown: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxAnswerBytes)
      throw new UserError(
        `${shown}: the answer is larger than ${maxAnswerBytes} bytes. Expected one row of probabilities per text.`,
      );
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Parses the Retry-After header (seconds or a date). Returns at most one minute. */
function parseRetryAfter(response: Response): number {
  const header = response.headers.get("retry-after") ?? "";
  const seconds = /^\s*\d/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(60, Math.max(0, seconds)) : 0;
}

function failOnRows(received: string, count: number, url: string): never {
  throw new UserError(
    `${url}: expected a list of ${count} rows of probabilities ([[0.1, 0.9], …] or ` +
      `{"probabilities": [[0.1, 0.9], …]}), received ${received}. For an endpoint with another form, say where the labels and ` +
      "scores are (--endpoint 'request={\"inputs\": $texts}' --endpoint 'labels=$[*].label' --endpoint 'scores=$[*].score'), " +
      "name a preset (--endpoint preset=tei), or pass a function.",
  );
}

function parseAnswer(body: string, url: string): unknown {
  const fail = (received: string): never => {
    throw new UserError(`${url}: expected JSON, received ${received}`);
  };
  if (body.trim() === "") fail("an empty response.");
  try {
    return JSON.parse(body);
  } catch {
    const kind = /^\s*</.test(body)
      ? "HTML (is this the URL of a web page, or of a login?)"
      : "invalid JSON (NaN and Infinity are not JSON)";
    return fail(`${kind}: ${truncateText(body)}`);
  }
}

function parseRows(data: unknown, count: number, numLabels: number | undefined, url: string): Float32Array[] {
  const rows = typeof data === "object" && data !== null && "probabilities" in data ? data.probabilities : data;
  const isOther = (value: unknown): boolean => typeof value === "object" && value !== null;
  if (!Array.isArray(rows) || rows.length !== count || rows.flat().some(isOther))
    return failOnRows(truncateText(JSON.stringify(data)), count, url);
  const width = numLabels ?? (Array.isArray(rows[0]) ? rows[0].length : 0);
  return rows.map((row, i) => parseRow(row, width, `${url}: row ${i}`));
}

function parseRow(row: unknown, numLabels: number, location: string): Float32Array {
  const fail = (expected: string, hint = ""): never => {
    throw new UserError(`${location}: expected ${expected}, received ${truncateText(JSON.stringify(row))}${hint}`);
  };
  const isRow =
    Array.isArray(row) && row.length === numLabels && numLabels >= 2 && row.every((value) => typeof value === "number");
  if (!isRow) return fail(`${Math.max(2, numLabels)} probabilities`);
  const values = row as number[];
  const total = values.reduce((sum, value) => sum + value, 0);
  if (values.some((value) => value < -1e-6 || value > 1 + 1e-6) || Math.abs(total - 1) > 0.01)
    fail(
      "probabilities that sum to 1",
      ". To take the softmax of logits: --endpoint 'request={\"texts\": $texts}' --endpoint 'scores=$[*][*]'",
    );
  return Float32Array.from(values);
}

function truncateText(text: string): string {
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}
