import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "zod";
import { getErrorMessage, UserError } from "../errors.js";
import { getErrorCode } from "../files.js";
import { classify, createClassifier, type Model, tokenizeFor } from "../models/index.js";
import { buildWordSequence, type Encoding } from "../text/encoding.js";
import { splitWords } from "../text/words.js";
import { validate } from "../validate.js";
import type { Callbacks } from "./callbacks.js";
import { runtimeOptions } from "./runtime-config.js";
import { loadClassifier } from "./text-classifier.js";

/**
 * Milliseconds that a request may take to arrive. A request that never ends must not keep the
 * server from stopping.
 */
const requestTimeout = 30_000;
const maxBytesPerRequest = 16 << 20;
const maxQueuedTexts = 65_536;

/** What `serveModel` accepts. */
export const serveRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  port: z.number().int().min(0).max(65_535).default(8080).describe("port to listen on; 0 chooses a free one"),
  host: z.string().default("127.0.0.1").describe("address to listen on"),
  maxTexts: z.number().int().positive().default(4096).describe("maximum texts per request and per batch"),
  ...runtimeOptions,
});
export type ServeRequest = z.input<typeof serveRequestSchema>;

/**
 * A model that is being served. `await using` or `close()` stops it after the requests in progress.
 *
 *     const served: ServedModel = await serveModel({ model: "runs/rose", port: 0 });
 */
export interface ServedModel extends AsyncDisposable {
  readonly url: string;
  readonly labels: readonly string[];
  close(): Promise<void>;
}

/**
 * Serves a model over HTTP: POST `{"texts": […]}` returns `{"probabilities": [[…], …]}`, GET
 * describes the model.
 *
 *     await using served = await serveModel({ model: "runs/reviews", port: 0 });
 *     const body = JSON.stringify({ texts: ["a quiet film"] });
 *     await fetch(served.url, { method: "POST", body });
 */
export async function serveModel(request: ServeRequest, callbacks: Callbacks = {}): Promise<ServedModel> {
  const parsed = validate(serveRequestSchema, request, "serve");
  const { model: reference, host, port, maxTexts, ...runtime } = parsed;
  const { onDownload, onWarning } = callbacks;
  const loaded = await loadClassifier(reference, { ...runtime, onDownload });
  const { model } = loaded;
  const classifier = createClassifier(model, model.weights, loaded.runtime);
  const free = (): void => {
    classifier.close();
    loaded.close();
  };
  const { labels, tokenization, maxLength, tokenizer } = model;
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  const encode =
    tokenization === "word"
      ? createWordEncoder(model, unkToken)
      : (texts: readonly string[]) => tokenizeFor(model, texts);
  const handler: InferenceHandler = {
    modelInfo: { model: reference, labels, tokenization, maxLength, unkToken },
    predict: (texts) => classify(classifier, texts.map(encode)),
  };
  const server = createInferenceServer(handler, { maxTexts });
  const url = await listen(server, host, port).catch((error: unknown) => {
    free();
    throw error;
  });
  if (!/^(localhost|::1|127\..*)$/.test(host))
    onWarning?.(`${host} is not a loopback address. Everyone who can reach this host can use the model.`);
  const close = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeIdleConnections();
    });
    free();
  };
  return { url, labels, close, [Symbol.asyncDispose]: close };
}

/** Classifies texts for a server: one row of probabilities per text or pair of texts. */
export interface InferenceHandler {
  /** The answer to GET. */
  readonly modelInfo: Readonly<Record<string, unknown>>;
  predict(texts: readonly (readonly string[])[]): Promise<readonly ArrayLike<number>[]>;
}

export interface ServerLimits {
  /** Maximum texts per request and per batch. */
  readonly maxTexts: number;
  readonly maxBytes?: number;
  /** Texts that may wait. A request beyond that is rejected with status 503. */
  readonly maxQueuedTexts?: number;
}

interface PendingRequest {
  readonly texts: readonly (readonly string[])[];
  resolve(rows: readonly ArrayLike<number>[]): void;
  reject(error: unknown): void;
}

/** A response with a status other than 200. */
class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/**
 * Creates an HTTP server. Requests that arrive while others are computed are classified together.
 */
export function createInferenceServer(handler: InferenceHandler, limits: ServerLimits): Server {
  const queue: PendingRequest[] = [];
  let queuedTexts = 0;
  let isBusy = false;
  async function processQueue(): Promise<void> {
    if (isBusy) return;
    isBusy = true;
    while (queue.length > 0) {
      const batch = takeBatch(queue, limits.maxTexts);
      const texts = batch.flatMap((pending) => pending.texts);
      try {
        const rows = await handler.predict(texts);
        let start = 0;
        for (const pending of batch) {
          pending.resolve(rows.slice(start, start + pending.texts.length));
          start += pending.texts.length;
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      queuedTexts -= texts.length;
    }
    isBusy = false;
  }
  async function handleRequest(request: IncomingMessage): Promise<unknown> {
    if (request.method === "GET" || request.method === "HEAD") return handler.modelInfo;
    if (request.method !== "POST") throw new HttpError(405, 'Use POST with {"texts": […]}.', { allow: "GET, POST" });
    const texts = parseTexts(await readBody(request, limits.maxBytes ?? maxBytesPerRequest), limits.maxTexts);
    if (texts.length === 0) return { probabilities: [] };
    if (queuedTexts + texts.length > (limits.maxQueuedTexts ?? maxQueuedTexts))
      throw new HttpError(503, "Too many texts are waiting. Try again later.", { "retry-after": "1" });
    queuedTexts += texts.length;
    const rows = await new Promise<readonly ArrayLike<number>[]>((resolve, reject) => {
      queue.push({ texts, resolve, reject });
      // Requests that arrived together are classified together.
      setImmediate(() => void processQueue());
    });
    return { probabilities: rows.map((row) => Array.from(row)) };
  }
  return createServer({ requestTimeout, connectionsCheckingInterval: 1000 }, async (request, response) => {
    const body = await handleRequest(request).catch((error: unknown) =>
      error instanceof HttpError ? error : new HttpError(500, getErrorMessage(error)),
    );
    // The client may have disconnected.
    if (response.destroyed) return;
    const { status, headers } = body instanceof HttpError ? body : { status: 200, headers: {} };
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(`${JSON.stringify(body instanceof HttpError ? { error: body.message } : body)}\n`);
  });
}

async function listen(server: Server, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  }).catch((error: unknown) => {
    const reasons: Record<string, string> = {
      EADDRINUSE: "The port is in use. Choose another --port, or 0 for a free one.",
      EACCES: "Permission denied. Choose a --port above 1023.",
      EADDRNOTAVAIL: "This host does not have that address. Choose another --host.",
      ENOTFOUND: "There is no such host. Choose another --host.",
    };
    const reason = reasons[getErrorCode(error) ?? ""] ?? getErrorMessage(error);
    throw new UserError(`Cannot listen on ${host}:${port}. ${reason}`, { cause: error });
  });
  const { address, family, port: chosen } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${chosen}/`;
}

/** Takes complete requests from the front of the queue, at least one. */
function takeBatch(queue: PendingRequest[], maxTexts: number): PendingRequest[] {
  let count = 0;
  let end = 0;
  while (end < queue.length && (end === 0 || count + queue[end]!.texts.length <= maxTexts))
    count += queue[end++]!.texts.length;
  return queue.splice(0, end);
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    // The rest is read and dropped, so that the client gets the response instead of a broken
    // connection.
    if (size <= maxBytes) chunks.push(chunk);
  }
  if (size > maxBytes)
    throw new HttpError(413, `Expected at most ${maxBytes} bytes, received ${size}. Send fewer texts per request.`);
  return Buffer.concat(chunks).toString("utf8");
}

const bodySchema = z.strictObject({
  texts: z.array(z.union([z.string(), z.tuple([z.string()]), z.tuple([z.string(), z.string()])])),
});

function parseTexts(body: string, maxTexts: number): (readonly string[])[] {
  let data: unknown;
  try {
    data = JSON.parse(body);
  } catch {
    throw new HttpError(400, 'Expected JSON: {"texts": ["a text", ["first of a pair", "second"]]}.');
  }
  // The count is checked first: millions of invalid texts would each cost an error message.
  const count = (data as { texts?: { length?: unknown } } | null)?.texts?.length;
  if (typeof count === "number" && count > maxTexts)
    throw new HttpError(413, `Expected at most ${maxTexts} texts per request, received ${count}.`);
  try {
    const { texts } = validate(bodySchema, data, "request");
    return texts.map((text) => (typeof text === "string" ? [text] : text));
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
}

/**
 * Word tokenization would split the unknown token into words, but attacks use it to mask a word.
 */
function createWordEncoder({ tokenizer, maxLength }: Model, unkToken: string): (texts: readonly string[]) => Encoding {
  const toTokenIds = (text: string): number[] =>
    text
      .split(unkToken)
      .flatMap((part, i) => [
        ...(i > 0 ? [tokenizer.special.unkId] : []),
        ...splitWords(part).map((word) => tokenizer.wordToId(word)),
      ]);
  return (texts) => buildWordSequence(texts.map(toTokenIds), tokenizer.special, maxLength);
}
