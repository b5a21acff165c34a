import { type UsedAnswer, wrapUse } from "../actions/predict/certified-model.js";
import { type LoadClassifierOptions, loadClassifier } from "../actions/predict/text-classifier.js";
import type { TemperEvent } from "../base/events.js";
import { answerCalls, type CallContext } from "../jobs/call-process.js";
import type { Model } from "../models/index.js";
import { EncodedText, type ModelPredictor, type Predictor } from "../models/inference/predictor.js";
import { unknownCharacter } from "../text/encoding.js";
import { HttpError, type HttpErrorInit } from "./http.js";
import { createModelService, type ModelService, type ServiceLimits } from "./model-service.js";

/** The program of the process that computes for `temper serve`. */

export interface ServedSettings {
  readonly reference: string;
  readonly options: Omit<LoadClassifierOptions, "onEvent">;
  /** `maxBatchTexts`: null chooses it by the device. */
  readonly limits: Omit<ServiceLimits, "maxBatchTexts"> & { readonly maxBatchTexts: number | null };
}

interface ServedModelFacts {
  readonly labels: readonly string[];
  readonly tokenization: string;
  readonly maxLength: number;
  readonly unkToken: string;
}

/** An event while texts are classified, for metrics. */
type ServedEvent = { readonly batch: number } | { readonly waiting: number };

let opened: Promise<ModelService & { readonly facts: ServedModelFacts }> | null = null;
/** Requests in progress. Metrics go to any of them. */
const open = new Set<CallContext<ServedEvent>>();

function report(event: ServedEvent): void {
  const [context] = open;
  context?.send(event);
}

/** Loads the model once. After a crash, the first request loads it again. */
function openService(settings: ServedSettings, onEvent?: (event: TemperEvent) => void): NonNullable<typeof opened> {
  opened ??= load(settings, onEvent);
  return opened;
}

async function load(
  { reference, options, limits }: ServedSettings,
  onEvent?: (event: TemperEvent) => void,
): NonNullable<typeof opened> {
  const { model, base: loaded, use } = await loadClassifier(reference, { ...options, onEvent });
  const { labels, tokenization, maxLength, tokenizer } = model;
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  const base = tokenization === "subword" ? loaded : readUnknownTokens(loaded, model, unkToken);
  // The first call casts the weights. The first client does not wait for it.
  await base.predict(base.prepare([[unkToken]]));
  const service = createModelService(
    { predictor: base, wrap: (predictor) => wrapUse(predictor, use) },
    { ...limits, maxBatchTexts: limits.maxBatchTexts ?? (base.callLimits.canOverlap ? 4096 : 256) },
    { onBatch: (batch) => report({ batch }), onWaiting: (waiting) => report({ waiting }) },
  );
  return { ...service, facts: { labels, tokenization, maxLength, unkToken } };
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

interface TextsOfClient {
  readonly settings: ServedSettings;
  readonly texts: readonly (readonly string[])[];
  readonly client: string;
}

const methods = {
  load: async (settings: ServedSettings, { send }: CallContext<TemperEvent>) =>
    (await openService(settings, send)).facts,
  answer: async (
    { settings, texts, client }: TextsOfClient,
    context: CallContext<ServedEvent>,
  ): Promise<{ readonly answers: readonly UsedAnswer[] } | HttpErrorInit> => {
    open.add(context);
    try {
      const service = await openService(settings);
      return { answers: await service.answer(texts, client) };
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      const { status, message, headers } = error;
      return { status, message, headers };
    } finally {
      open.delete(context);
    }
  },
};
export type ServeMethods = typeof methods;

answerCalls(methods);
