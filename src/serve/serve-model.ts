import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { z } from "zod";
import { guardOptions, hiddenOptions } from "../actions/predict/certified-model.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { countSchema, orNull, validate } from "../base/validate.js";
import { CallProcess } from "../jobs/call-process.js";
import { readPackageVersion } from "../runs/environment.js";
import { runtimeOptions } from "../settings/runtime-config.js";
import { HttpError, listen } from "./http.js";
import { createInferenceApp } from "./inference-app.js";
import { createInferenceMetrics } from "./inference-metrics.js";
import type { ServedSettings, ServeMethods } from "./model-process.js";
import type { ModelService } from "./model-service.js";
import type { LoggedRequest } from "./request-log.js";

export type { LoggedRequest };

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
  ...hiddenOptions,
  ...runtimeOptions,
});
export type ServeRequest = z.input<typeof serveRequestSchema>;

/**
 * A model that is being served. `await using` or `close()` stops it after the requests in progress.
 *
 *     const served: ServedModel = await serve({ model: "runs/rose", port: 0 });
 */
export interface ServedModel extends AsyncDisposable {
  readonly url: string;
  readonly labels: readonly string[];
  close(): Promise<void>;
}

export interface ServeCallbacks extends Callbacks {
  readonly onRequest?: ((request: LoggedRequest) => void) | undefined;
}

/**
 * Serves a model over HTTP: POST /predict `{"texts": […]}` returns `{"predictions": […],
 * "probabilities": [[…], …]}`. GET / describes the model; /health, /metrics and /openapi.json are
 * for operators.
 *
 *     await using served = await serve({ model: "runs/reviews", port: 0 });
 *     const headers = { "content-type": "application/json" };
 *     const body = JSON.stringify({ texts: ["a quiet film"] });
 *     await fetch(`${served.url}predict`, { method: "POST", headers, body });
 */
export async function serve(request: ServeRequest, callbacks: ServeCallbacks = {}): Promise<ServedModel> {
  const parsed = validate(serveRequestSchema, request, "serve");
  const { model: reference, host, port, allowedHosts, maxConnections } = parsed;
  const { device, precision, threads, windows, positiveLabel } = parsed;
  const { maxPasses, maxClientPasses, maxQueuedPasses, maxBatchTexts, rejectHidden } = parsed;
  const { onEvent, onRequest } = callbacks;
  const apiKey = readApiKey(parsed.apiKey);
  const metrics = createInferenceMetrics();
  const settings: ServedSettings = {
    reference,
    options: { device, precision, threads, windows, positiveLabel },
    limits: { maxPasses, maxClientPasses, maxQueuedPasses, maxBatchTexts, rejectHidden },
  };
  // A forward pass occupies its process. This one answers /health and reads requests meanwhile.
  const computing = new CallProcess<ServeMethods>("serve/model-process.js");
  const facts = await computing
    .call("load", settings, { ...(onEvent && { onEvent }) })
    .catch(async (error: unknown) => {
      await computing.close();
      throw error;
    });
  const service: ModelService = {
    async answer(texts, client) {
      const found = await computing.call(
        "answer",
        { settings, texts, client },
        {
          onEvent: (event) =>
            "batch" in event ? metrics.batches.observe(event.batch) : metrics.waitingPasses.set(event.waiting),
        },
      );
      if ("answers" in found) return found.answers;
      throw new HttpError(found.status, found.message, found.headers);
    },
  };
  const { labels } = facts;
  // Clients need not know where the model is stored.
  const name = existsSync(reference) ? basename(resolve(reference)) : reference;
  const modelInfo = { model: name, ...facts };
  const { app, stop } = createInferenceApp({ modelInfo, service, metrics }, parsed, {
    allowedHosts: [host, ...allowedHosts],
    onError: (message: string) => warn(callbacks, message),
    apiKey,
    onRequest,
    version: readPackageVersion(),
  });
  const server = await listen(app, { host, port, maxConnections }).catch(async (error: unknown) => {
    await computing.close();
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
    await computing.close();
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
