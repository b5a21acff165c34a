import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { z } from "zod";
import { getErrorMessage, UserError } from "../errors.js";
import {
  type Classifier,
  classify,
  createClassifier,
  type DeviceConfig,
  type Model,
  tokenizeFor,
} from "../models/index.js";
import { buildWordSequence, type Encoding } from "../text/encoding.js";
import { splitWords } from "../text/words.js";
import { validate } from "../validate.js";

/** Milliseconds that a request may take to arrive: one that never ends must not hold the server when it is to stop. */
const requestTimeout = 30_000;

/** What answers for texts (one, or a pair as a list): one row of probabilities each. */
export interface InferenceHandler {
  /** Facts for GET: name, labels, how a hidden word is written, … */
  readonly modelInfo: Readonly<Record<string, unknown>>;
  predict(texts: readonly (readonly string[])[]): Promise<readonly ArrayLike<number>[]>;
}

export interface ServerLimits {
  /** Texts of one request. */
  readonly maxTexts: number;
  /** Bytes of one request. */
  readonly maxBytes: number;
  /** Texts that may wait; beyond them requests are told to come again. */
  readonly maxQueuedTexts: number;
}

export const defaultServerLimits: ServerLimits = { maxTexts: 4096, maxBytes: 16 << 20, maxQueuedTexts: 65_536 };

const requestSchema = z.strictObject({
  texts: z.array(z.union([z.string(), z.tuple([z.string()]), z.tuple([z.string(), z.string()])])),
});

/** An answer that is not 200. */
class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

interface PendingRequest {
  readonly texts: readonly (readonly string[])[];
  resolve(rows: readonly ArrayLike<number>[]): void;
  reject(error: unknown): void;
}

/**
 * An HTTP endpoint over something that answers: POST {"texts": […]} gives {"probabilities": [[…], …]}, GET its facts. Requests that
 * come while others are computed are answered together, in full batches.
 */
export function createInferenceServer(answerer: InferenceHandler, limits: ServerLimits = defaultServerLimits): Server {
  const queue: PendingRequest[] = [];
  let waiting = 0;
  let busy = false;
  async function drain(): Promise<void> {
    if (busy) return;
    busy = true;
    while (queue.length > 0) {
      const batch = takeBatch(queue, limits.maxTexts);
      try {
        const rows = await answerer.predict(batch.flatMap(({ texts }) => texts));
        let at = 0;
        for (const { texts, resolve } of batch) {
          resolve(rows.slice(at, at + texts.length));
          at += texts.length;
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      waiting -= batch.reduce((sum, { texts }) => sum + texts.length, 0);
    }
    busy = false;
  }
  async function handleRequest(request: IncomingMessage): Promise<unknown> {
    if (request.method === "GET" || request.method === "HEAD") return answerer.modelInfo;
    if (request.method !== "POST")
      throw new HttpError(405, 'expected POST with {"texts": […]}', { allow: "GET, POST" });
    const texts = parseTexts(await readBody(request, limits.maxBytes), limits.maxTexts);
    if (texts.length === 0) return { probabilities: [] };
    if (waiting + texts.length > limits.maxQueuedTexts)
      throw new HttpError(503, "too many texts are waiting; come again", { "retry-after": "1" });
    waiting += texts.length;
    const rows = await new Promise<readonly ArrayLike<number>[]>((resolve, reject) => {
      queue.push({ texts, resolve, reject });
      // Requests that arrived together are answered together.
      setImmediate(() => void drain());
    });
    return { probabilities: rows.map((row) => Array.from(row)) };
  }
  return createServer({ requestTimeout, connectionsCheckingInterval: 1000 }, (request, response) => {
    handleRequest(request).then(
      (value) => sendJson(response, 200, value),
      (error: unknown) => {
        const refusal = error instanceof HttpError ? error : new HttpError(500, getErrorMessage(error));
        sendJson(response, refusal.status, { error: refusal.message }, refusal.headers);
      },
    );
  });
}

/** Whole requests from the front of a queue, at least one. */
function takeBatch(queue: PendingRequest[], most: number): PendingRequest[] {
  let count = 0;
  let end = 0;
  while (end < queue.length && (end === 0 || count + queue[end]!.texts.length <= most))
    count += queue[end++]!.texts.length;
  return queue.splice(0, end);
}

async function readBody(request: IncomingMessage, most: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    // The rest is read and dropped, so that the sender hears the answer instead of a broken connection.
    if (size <= most) chunks.push(chunk);
  }
  if (size > most)
    throw new HttpError(413, `expected at most ${most} bytes, received ${size}; send fewer texts a request`);
  return Buffer.concat(chunks).toString("utf8");
}

function parseTexts(body: string, most: number): (readonly string[])[] {
  let data: unknown;
  try {
    data = JSON.parse(body);
  } catch {
    throw new HttpError(400, 'expected JSON: {"texts": ["a text", ["a pair\'s first", "and second"]]}');
  }
  // Counted before they are looked at: millions of wrong ones would each cost a message.
  const count = (data as { texts?: { length?: unknown } } | null)?.texts?.length;
  if (typeof count === "number" && count > most)
    throw new HttpError(413, `expected at most ${most} texts a request, received ${count}`);
  try {
    const { texts } = validate(requestSchema, data, "request");
    return texts.map((text) => (typeof text === "string" ? [text] : text));
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
}

function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  // The asker may have gone away meanwhile.
  if (response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(`${JSON.stringify(value)}\n`);
}

/** A model behind an endpoint; the caller listens, and frees the model's weights when it has closed. */
export function serveModel(
  model: Model,
  deviceConfig: DeviceConfig,
  limits?: ServerLimits,
): { readonly server: Server; readonly classifier: Classifier } {
  const classifier = createClassifier(model, model.weights, deviceConfig);
  const { reference, labels, tokenization: encoding, maxLength, tokenizer } = model;
  const [unknown] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  const encode =
    encoding === "word" ? createWordEncoder(model, unknown) : (texts: readonly string[]) => tokenizeFor(model, texts);
  const facts = { model: reference, labels, encoding, maxLength, unknown };
  const server = createInferenceServer(
    { modelInfo: facts, predict: (texts) => classify(classifier, texts.map(encode)) },
    limits,
  );
  return { server, classifier };
}

/** The word encoding would cut the unknown token's own spelling into words; attacks hide words behind it. */
function createWordEncoder({ tokenizer, maxLength }: Model, unknown: string): (texts: readonly string[]) => Encoding {
  const toTokenIds = (text: string): number[] =>
    text
      .split(unknown)
      .flatMap((part, i) => [
        ...(i > 0 ? [tokenizer.special.unkId] : []),
        ...splitWords(part).map((word) => tokenizer.wordToId(word)),
      ]);
  return (texts) => buildWordSequence(texts.map(toTokenIds), tokenizer.special, maxLength);
}
