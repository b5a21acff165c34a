import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { z } from "zod";
import { classify, createClassifier, type Model } from "../models/index.js";
import type { Callbacks } from "../runs/callbacks.js";
import { runtimeOptions } from "../runs/runtime-config.js";
import { loadClassifier } from "../runs/text-classifier.js";
import { buildWordSequence, type Encoding } from "../text/encoding.js";
import { splitWords } from "../text/words.js";
import { validate } from "../validate.js";
import { listen } from "./http.js";
import { createInferenceApp } from "./inference-app.js";

/** What `serveModel` accepts. */
export const serveRequestSchema = z.strictObject({
  model: z.string().describe("a run folder, a model folder, npm:PACKAGE or a Hugging Face model ID"),
  port: z.number().int().min(0).max(65_535).default(8080).describe("port to listen on; 0 chooses a free one"),
  host: z.string().default("127.0.0.1").describe("address to listen on"),
  allowedHosts: z
    .array(z.string())
    .default([])
    .describe("host name that clients may use, besides localhost and IP addresses"),
  maxTexts: z.number().int().positive().default(4096).describe("maximum texts per request and per batch"),
  maxCharacters: z.number().int().positive().default(100_000).describe("maximum characters per text"),
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
 *     const headers = { "content-type": "application/json" };
 *     const body = JSON.stringify({ texts: ["a quiet film"] });
 *     await fetch(served.url, { method: "POST", headers, body });
 */
export async function serveModel(request: ServeRequest, callbacks: Callbacks = {}): Promise<ServedModel> {
  const parsed = validate(serveRequestSchema, request, "serve");
  const { model: reference, host, port, allowedHosts, maxTexts, maxCharacters, ...runtime } = parsed;
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
  // Clients need not know where the model is stored.
  const name = existsSync(reference) ? basename(resolve(reference)) : reference;
  const encodeSubwords = async (texts: readonly string[]): Promise<Encoding> =>
    (await tokenizer.encodeAsync([texts], maxLength))[0]!;
  const app = createInferenceApp(
    {
      modelInfo: { model: name, labels, tokenization, maxLength, unkToken },
      encode: tokenization === "word" ? createWordEncoder(model, unkToken) : encodeSubwords,
      predict: (encodings: readonly Encoding[]) => classify(classifier, encodings),
    },
    { maxTexts, maxCharacters },
    { allowedHosts: [host, ...allowedHosts], onError: onWarning },
  );
  const server = await listen(app, { host, port }).catch((error: unknown) => {
    free();
    throw error;
  });
  if (!/^(localhost|::1|127\..*)$/.test(host))
    onWarning?.(`${host} is not a loopback address. Everyone who can reach this host can use the model.`);
  const close = async (): Promise<void> => {
    await server.close();
    free();
  };
  return { url: server.url, labels, close, [Symbol.asyncDispose]: close };
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
