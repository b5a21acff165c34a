import type { Server } from "node:http";
import {
  type Classifier,
  classify,
  createClassifier,
  type DeviceConfig,
  type Model,
  tokenizeFor,
} from "../models/index.js";
import type { Encoding } from "../text/encoding.js";
import { buildWordSequence } from "../text/word-encoding.js";
import { splitWords } from "../text/words.js";
import { createInferenceServer, type ServerLimits } from "./endpoint.js";

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
