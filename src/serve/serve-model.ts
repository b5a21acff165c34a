import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { z } from "zod";
import { guardOptions, wrapUse } from "../actions/predict/certified-model.js";
import { loadClassifier } from "../actions/predict/text-classifier.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { countSchema, orNull, validate } from "../base/validate.js";
import type { Model } from "../models/index.js";
import { EncodedText, type ModelPredictor, type Predictor } from "../models/inference/predictor.js";
import { readPackageVersion } from "../runs/environment.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { unknownCharacter } from "../text/encoding.js";
import { listen } from "./http.js";
import { createInferenceApp } from "./inference-app.js";
import type { LoggedRequest } from "./request-log.js";

/** What `serveModel` accepts. */
export const serveRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  port: z.number().int().min(0).max(65_535).default(8080).describe("port to listen on; 0 chooses a free one"),
  host: z.string().default("127.0.0.1").describe("address to listen on"),
  allowedHosts: z
    .array(z.string())
    .default([])
    .describe("host name that clients may use, besides localhost and IP addresses"),
  apiKey: orNull(z.string().min(1)).describe("key that clients must send; env:VARIABLE reads it from the environment"),
  maxTexts: countSchema.default(4096).describe("maximum texts per request"),
  maxBatchTexts: orNull(countSchema, "256, and 4096 on a GPU").describe(
    "maximum texts, windows or groups that are classified together",
  ),
  maxPasses: countSchema
    .default(8192)
    .describe("maximum model passes per request; a text needs one, or one per window or group; more get status 413"),
  maxClientPasses: countSchema
    .default(32_768)
    .describe("maximum model passes of one client that wait, by its address; more get status 413"),
  maxQueuedPasses: countSchema
    .default(65_536)
    .describe("maximum model passes of all clients that wait; more get status 503"),
  maxConnections: countSchema.default(1024).describe("maximum open connections"),
  maxCharacters: z.number().int().positive().default(100_000).describe("maximum characters per text"),
  ...guardOptions,
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

/** What happens while a model is served. */
export interface ServeCallbacks extends Callbacks {
  /** Called after each request. */
  readonly onRequest?: ((request: LoggedRequest) => void) | undefined;
}

/**
 * Serves a model over HTTP: POST /predict `{"texts": […]}` returns `{"predictions": […],
 * "probabilities": [[…], …]}`. GET / describes the model; /health, /metrics and /openapi.json are
 * for operators.
 *
 *     await using served = await serveModel({ model: "runs/reviews", port: 0 });
 *     const headers = { "content-type": "application/json" };
 *     const body = JSON.stringify({ texts: ["a quiet film"] });
 *     await fetch(`${served.url}predict`, { method: "POST", headers, body });
 */
export async function serveModel(request: ServeRequest, callbacks: ServeCallbacks = {}): Promise<ServedModel> {
  const parsed = validate(serveRequestSchema, request, "serve");
  const { model: reference, host, port, allowedHosts, maxConnections } = parsed;
  const { device, precision, threads, windows, positiveLabel } = parsed;
  const { onEvent, onRequest } = callbacks;
  const apiKey = readApiKey(parsed.apiKey);
  const loaded = await loadClassifier(reference, { device, precision, threads, windows, positiveLabel, onEvent });
  const { model, use } = loaded;
  const { labels, tokenization, maxLength, tokenizer } = model;
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  const base = tokenization === "subword" ? loaded.base : readUnknownTokens(loaded.base, model, unkToken);
  // The first call casts the weights. The first client does not wait for it.
  await base.predict(base.prepare([[unkToken]]));
  // Clients need not know where the model is stored.
  const name = existsSync(reference) ? basename(resolve(reference)) : reference;
  const modelInfo = { model: name, labels, tokenization, maxLength, unkToken };
  const { app, stop } = createInferenceApp(
    { modelInfo, predictor: base, wrap: (predictor) => wrapUse(predictor, use) },
    { ...parsed, maxBatchTexts: parsed.maxBatchTexts ?? (base.callLimits.canOverlap ? 4096 : 256) },
    {
      allowedHosts: [host, ...allowedHosts],
      onError: (message: string) => warn(callbacks, message),
      apiKey,
      onRequest,
      version: readPackageVersion(),
    },
  );
  const server = await listen(app, { host, port, maxConnections }).catch((error: unknown) => {
    loaded.close();
    throw error;
  });
  if (apiKey === null && !/^(localhost|::1|127\..*)$/.test(host))
    warn(
      callbacks,
      `${host} is not a loopback address. Everyone who can reach this host can use the model. Set --api-key.`,
    );
  const close = async (): Promise<void> => {
    stop();
    await server.close();
    loaded.close();
  };
  return { url: server.url, labels, close, [Symbol.asyncDispose]: close };
}

function readApiKey(given: string | null): string | null {
  const variable = /^env:(.*)$/.exec(given ?? "")?.[1];
  if (variable === undefined) return given;
  const key = process.env[variable];
  if (!key) throw new UserError(`--api-key: the environment variable ${variable} is not set. Export it first.`);
  return key;
}

/**
 * Word tokenization would split the unknown token into words, but attacks use it to mask a word.
 */
function readUnknownTokens(
  predictor: ModelPredictor,
  { tokenizer, maxLength }: Model,
  unkToken: string,
): Predictor<EncodedText> {
  const encode = (texts: readonly string[]): EncodedText => {
    const encoding = tokenizer.encodeWords(
      texts.map((text) => text.replaceAll(unkToken, unknownCharacter)),
      maxLength,
    );
    for (const [i, word] of encoding.words.entries())
      if (word === unknownCharacter) encoding.ids[encoding.positions[i]!] = tokenizer.special.unkId;
    return new EncodedText(encoding);
  };
  const { name, numLabels, callLimits } = predictor;
  return {
    name,
    numLabels,
    callLimits,
    prepare: (texts) => texts.map(encode),
    predict: (items) => predictor.predict(items),
  };
}
