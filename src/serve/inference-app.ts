import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Context, Handler, Hono, MiddlewareHandler } from "hono";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { toPredictions } from "../evaluation/metrics.js";
import { BodyMemory, createHttpApp, type HttpAppOptions, HttpError, readJsonBody } from "./http.js";
import type { InferenceMetrics } from "./inference-metrics.js";
import type { ModelService } from "./model-service.js";
import { createOpenApi, predictBodySchema } from "./openapi.js";
import type { PassLimits } from "./pass-budget.js";
import { createRequestLog, type LoggedRequest, noteTextCount } from "./request-log.js";

export interface InferenceHandler {
  readonly modelInfo: Readonly<Record<string, unknown>> & { readonly labels: readonly string[] };
  readonly service: ModelService;
  readonly metrics: InferenceMetrics;
}

export interface InferenceLimits extends PassLimits {
  readonly maxTexts: number;
  readonly maxCharacters: number;
  readonly maxBytes?: number;
}

const maxBytesPerRequest = 16 << 20;
const maxBytesOfAllRequests = 128 << 20;
const example = '{"texts": ["a text", ["first of a pair", "second"]]}';

/** The duties of a model's server besides answering. */
export interface InferenceAppOptions extends HttpAppOptions {
  /** Required as `authorization: Bearer KEY` or `x-api-key: KEY`, except for /health. */
  readonly apiKey?: string | null;
  readonly version?: string;
  readonly onRequest?: ((request: LoggedRequest) => void) | undefined;
}

/** The application of a model, and the switch that makes /health say that it is stopping. */
export interface InferenceApp {
  readonly app: Hono;
  stop(): void;
}

/**
 * Creates the application of a model: POST /predict `{"texts": […]}` returns `{"predictions": […],
 * "probabilities": [[…], …]}`, also at `/`. GET / describes the model, /health tells whether it
 * accepts requests, /metrics is for Prometheus, and /openapi.json describes the routes.
 */
export function createInferenceApp(
  { modelInfo, service, metrics }: InferenceHandler,
  limits: InferenceLimits,
  options: InferenceAppOptions = {},
): InferenceApp {
  const { maxTexts, maxBytes = maxBytesPerRequest } = limits;
  const { apiKey = null, version = "", onRequest, ...httpOptions } = options;
  const { labels } = modelInfo;
  const memory = new BodyMemory(Math.max(maxBytes, maxBytesOfAllRequests));
  let isStopping = false;
  const routes = ["/", "/predict", "/health", "/metrics", "/openapi.json"];
  const log = createRequestLog(routes, (request) => {
    const { route, status, milliseconds } = request;
    metrics.requests.inc({ route, status });
    if (route === "/predict") metrics.seconds.observe(milliseconds / 1000);
    onRequest?.(request);
  });
  const app = createHttpApp({
    ...httpOptions,
    middleware: [log, ...(apiKey === null ? [] : [createKeyCheck(apiKey)])],
  });
  app.get("/", (context) => context.json(modelInfo));
  app.get("/health", (context) => context.json({ status: isStopping ? "stopping" : "ok" }, isStopping ? 503 : 200));
  app.get("/metrics", async (context) =>
    context.text(await metrics.registry.metrics(), 200, { "content-type": metrics.registry.contentType }),
  );
  app.get("/openapi.json", (context) =>
    context.json(createOpenApi({ ...limits, model: modelInfo, hasApiKey: apiKey !== null, version })),
  );
  const answer: Handler = async (context) => {
    const body = await readJsonBody(context, {
      maxBytes,
      memory,
      example,
      maxDepth: 3,
      maxValues: 4 * maxTexts + 16,
    });
    const { texts, isHuggingFace } = parseBody(body, limits);
    noteTextCount(context, texts.length);
    const answers = await service.answer(texts, getClient(context));
    const certified = answers.flatMap((each) => each.certified ?? []);
    const flagged = answers.flatMap((each) => each.flagged ?? []);
    const rows = answers.map(({ probabilities }) => probabilities);
    const predictions = Array.from(toPredictions(rows), (index) => labels[index] ?? String(index));
    for (const label of predictions) metrics.predictions.inc({ label });
    if (isHuggingFace) return context.json(rows.map((row) => toScores(row, labels)));
    const probabilities = rows.map((row) => Array.from(row));
    return context.json({
      predictions,
      probabilities,
      ...(flagged.length > 0 && { flagged }),
      ...(certified.length > 0 && { certified }),
      ...(answers.some(({ hidden }) => hidden) && { hidden: answers.map(({ hidden }) => hidden ?? null) }),
    });
  };
  app.post("/", answer);
  app.post("/predict", answer);
  for (const route of ["/", "/predict"])
    app.all(route, () => {
      throw new HttpError(405, 'Use POST with {"texts": […]}.', { allow: route === "/" ? "GET, POST" : "POST" });
    });
  return {
    app,
    stop: () => {
      isStopping = true;
    },
  };
}

/** Compares keys in constant time, so that the time of a response tells nothing about the key. */
function createKeyCheck(apiKey: string): MiddlewareHandler {
  const hash = (text: string): Buffer => createHash("sha256").update(text).digest();
  const expected = hash(apiKey);
  return async (context, next) => {
    const bearer = /^Bearer (.+)$/i.exec(context.req.header("authorization") ?? "")?.[1];
    const given = bearer ?? context.req.header("x-api-key") ?? "";
    if (context.req.path !== "/health" && !timingSafeEqual(hash(given), expected))
      throw new HttpError(401, "The API key is missing or wrong. Send it as authorization: Bearer KEY.", {
        "www-authenticate": "Bearer",
      });
    await next();
  };
}

/** All labels with their probabilities, the most probable first, as Hugging Face's inference API. */
function toScores(row: ArrayLike<number>, labels: readonly string[]): { label: string; score: number }[] {
  return Array.from(row, (score, i) => ({ label: labels[i] ?? String(i), score })).sort((a, b) => b.score - a.score);
}

/** Reads `{"texts": […]}`, or `{"inputs": …}` as Hugging Face's inference API. */
function parseBody(
  data: unknown,
  limits: InferenceLimits,
): { readonly texts: (readonly string[])[]; readonly isHuggingFace: boolean } {
  if (typeof data !== "object" || data === null || !("inputs" in data) || "texts" in data)
    return { texts: parseTexts(data, limits), isHuggingFace: false };
  return { texts: parseTexts({ texts: [data.inputs].flat() }, limits), isHuggingFace: true };
}

function parseTexts(data: unknown, { maxTexts, maxCharacters }: InferenceLimits): (readonly string[])[] {
  // The count is checked first: millions of invalid texts would each cost an error message.
  const count = (data as { texts?: { length?: unknown } } | null)?.texts?.length;
  if (typeof count === "number" && count > maxTexts)
    throw new HttpError(413, `Expected at most ${maxTexts} texts per request, received ${count}.`);
  let texts: (readonly string[])[];
  try {
    texts = validate(predictBodySchema, data, "request").texts.map((text) =>
      typeof text === "string" ? [text] : text,
    );
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
  const longest = texts.flat().reduce((most, { length }) => Math.max(most, length), 0);
  if (longest > maxCharacters)
    throw new HttpError(413, `Expected at most ${maxCharacters} characters per text, received ${longest}.`);
  return texts;
}

/** The address of a client. All clients of a reverse proxy have the same one. */
function getClient({ env }: Context<{ Bindings: { incoming?: IncomingMessage } }>): string {
  return env?.incoming?.socket.remoteAddress ?? "";
}
