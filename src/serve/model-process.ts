// The process that computes for `temper serve`, so that the one with the HTTP server always answers
// at once. start-model-process.ts starts it. It ends with the other one.
import { wrapUse } from "../actions/predict/certified-model.js";
import { type LoadClassifierOptions, loadClassifier } from "../actions/predict/text-classifier.js";
import { getErrorMessage, UserError } from "../base/errors.js";
import type { TemperEvent } from "../base/events.js";
import type { Model } from "../models/index.js";
import { EncodedText, type ModelPredictor, type Predictor } from "../models/inference/predictor.js";
import { unknownCharacter } from "../text/encoding.js";
import { HttpError, type HttpErrorInit } from "./http.js";
import { createModelService, type ModelService, type ServiceLimits } from "./model-service.js";

/** The first message to this process. */
export interface ModelProcessSettings {
  readonly reference: string;
  readonly options: Omit<LoadClassifierOptions, "onEvent">;
  /** `maxBatchTexts`: null chooses it by the device. */
  readonly limits: Omit<ServiceLimits, "maxBatchTexts"> & { readonly maxBatchTexts: number | null };
}

/** What clients may know about the model. */
export interface ServedModelFacts {
  readonly labels: readonly string[];
  readonly tokenization: string;
  readonly maxLength: number;
  readonly unkToken: string;
}

/** All further messages to this process. */
export interface TextsMessage {
  readonly id: number;
  readonly texts: Parameters<ModelService["answer"]>[0];
  readonly client: string;
}

/** How a request fails: for the client, or with a message that only the operator sees. */
type Failure = { readonly http: HttpErrorInit } | { readonly message: string };

/** The messages of this process. */
export type ModelMessage =
  | { readonly kind: "event"; readonly event: TemperEvent }
  | { readonly kind: "failed"; readonly message: string; readonly isUserError: boolean }
  | { readonly kind: "ready"; readonly facts: ServedModelFacts }
  | { readonly kind: "batch"; readonly texts: number }
  | { readonly kind: "waiting"; readonly passes: number }
  | { readonly kind: "answers"; readonly id: number; readonly answers: Awaited<ReturnType<ModelService["answer"]>> }
  | { readonly kind: "error"; readonly id: number; readonly failure: Failure };

function send(message: ModelMessage): void {
  process.send?.(message);
}

async function load({ reference, options, limits }: ModelProcessSettings): Promise<ModelService> {
  const loaded = await loadClassifier(reference, { ...options, onEvent: (event) => send({ kind: "event", event }) });
  const { labels, tokenization, maxLength, tokenizer } = loaded.model;
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  const base = tokenization === "subword" ? loaded.base : readUnknownTokens(loaded.base, loaded.model, unkToken);
  // The first call casts the weights. The first client does not wait for it.
  await base.predict(base.prepare([[unkToken]]));
  const service = createModelService(
    { predictor: base, wrap: (predictor) => wrapUse(predictor, loaded.use) },
    { ...limits, maxBatchTexts: limits.maxBatchTexts ?? (base.callLimits.canOverlap ? 4096 : 256) },
    {
      onBatch: (texts) => send({ kind: "batch", texts }),
      onWaiting: (passes) => send({ kind: "waiting", passes }),
    },
  );
  send({ kind: "ready", facts: { labels, tokenization, maxLength, unkToken } });
  return service;
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

function toFailure(error: unknown): Failure {
  if (!(error instanceof HttpError)) return { message: getErrorMessage(error) };
  const { status, message, headers } = error;
  return { http: { status, message, headers } };
}

process.once("disconnect", () => process.exit());
process.once("message", (settings: ModelProcessSettings) => {
  load(settings).then(
    (service) =>
      process.on("message", ({ id, texts, client }: TextsMessage) => {
        service.answer(texts, client).then(
          (answers) => send({ kind: "answers", id, answers }),
          (error: unknown) => send({ kind: "error", id, failure: toFailure(error) }),
        );
      }),
    (error: unknown) =>
      send({ kind: "failed", message: getErrorMessage(error), isUserError: error instanceof UserError }),
  );
});
