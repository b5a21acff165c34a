import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { Hono } from "hono";
import { z } from "zod";
import { UserError } from "../errors.js";
import { validate } from "../validate.js";
import { BatchQueue } from "./batch-queue.js";
import { BodyMemory, createHttpApp, type HttpAppOptions, HttpError, readJsonBody } from "./http.js";

/** Classifies texts for a server: one row of probabilities per text or pair of texts. */
export interface InferenceHandler<Item> {
  /** The answer to GET. */
  readonly modelInfo: Readonly<Record<string, unknown>>;
  /** Tokenizes a text or a pair of texts. */
  encode(texts: readonly string[]): Item | Promise<Item>;
  predict(items: readonly Item[]): Promise<readonly ArrayLike<number>[]>;
}

export interface InferenceLimits {
  /** Maximum texts per request and per batch. */
  readonly maxTexts: number;
  /** Maximum characters per text. */
  readonly maxCharacters: number;
  readonly maxBytes?: number;
  readonly maxQueuedTexts?: number;
}

/** Milliseconds of tokenization after which other requests get their turn. */
const maxBusyMilliseconds = 10;
const maxBytesPerRequest = 16 << 20;
const maxBytesOfAllRequests = 128 << 20;
const example = '{"texts": ["a text", ["first of a pair", "second"]]}';

/**
 * Creates the application of a model: POST `{"texts": […]}` returns `{"probabilities": [[…], …]}`,
 * GET describes the model.
 */
export function createInferenceApp<Item>(
  handler: InferenceHandler<Item>,
  limits: InferenceLimits,
  options: HttpAppOptions = {},
): Hono {
  const { maxTexts, maxBytes = maxBytesPerRequest, maxQueuedTexts = 65_536 } = limits;
  const queue = new BatchQueue((items: readonly Item[]) => handler.predict(items), {
    maxBatchSize: maxTexts,
    maxQueuedItems: maxQueuedTexts,
  });
  const memory = new BodyMemory(Math.max(maxBytes, maxBytesOfAllRequests));
  const app = createHttpApp(options);
  app.get("/", (context) => context.json(handler.modelInfo));
  app.post("/", async (context) => {
    const texts = parseTexts(await readJsonBody(context, { maxBytes, memory, example }), limits);
    const rows = await queue.run(await encodeInSlices(texts, handler));
    return context.json({ probabilities: rows.map((row) => Array.from(row)) });
  });
  app.all("/", () => {
    throw new HttpError(405, 'Use POST with {"texts": […]}.', { allow: "GET, POST" });
  });
  return app;
}

const bodySchema = z.strictObject({
  texts: z.array(z.union([z.string(), z.tuple([z.string()]), z.tuple([z.string(), z.string()])])),
});

function parseTexts(data: unknown, { maxTexts, maxCharacters }: InferenceLimits): (readonly string[])[] {
  // The count is checked first: millions of invalid texts would each cost an error message.
  const count = (data as { texts?: { length?: unknown } } | null)?.texts?.length;
  if (typeof count === "number" && count > maxTexts)
    throw new HttpError(413, `Expected at most ${maxTexts} texts per request, received ${count}.`);
  let texts: (readonly string[])[];
  try {
    texts = validate(bodySchema, data, "request").texts.map((text) => (typeof text === "string" ? [text] : text));
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
  const longest = texts.flat().reduce((most, { length }) => Math.max(most, length), 0);
  if (longest > maxCharacters)
    throw new HttpError(413, `Expected at most ${maxCharacters} characters per text, received ${longest}.`);
  return texts;
}

/** Tokenizes texts and lets other requests run in between. */
async function encodeInSlices<Item>(
  texts: readonly (readonly string[])[],
  { encode }: Pick<InferenceHandler<Item>, "encode">,
): Promise<Item[]> {
  const items: Item[] = [];
  let started = performance.now();
  for (const text of texts) {
    items.push(await encode(text));
    if (performance.now() - started < maxBusyMilliseconds) continue;
    await yieldToEventLoop();
    started = performance.now();
  }
  return items;
}
