import type { Server } from "node:http";
import { type Classifier, classify, encodeFor, type Model, openClassifier, type Placement } from "../models/index.js";
import type { Encoded } from "../text/encoding.js";
import { arrangeWords } from "../text/word-encoding.js";
import { splitWords } from "../text/words.js";
import { createEndpoint, type EndpointLimits } from "./endpoint.js";

/** A model behind an endpoint; the caller listens, and frees the model's weights when it has closed. */
export function serveModel(
  model: Model,
  placement: Placement,
  limits?: EndpointLimits,
): { readonly server: Server; readonly classifier: Classifier } {
  const classifier = openClassifier(model, model.weights, placement);
  const { reference, labels, encoding, maxLength, tokenizer } = model;
  const [unknown] = tokenizer.tokens([tokenizer.special.unknown]) as [string];
  const encode = encoding === "word" ? wordsWithUnknown(model, unknown) : (texts: readonly string[]) => encodeFor(model, texts);
  const facts = { model: reference, labels, encoding, maxLength, unknown };
  const server = createEndpoint({ facts, answer: (texts) => classify(classifier, texts.map(encode)) }, limits);
  return { server, classifier };
}

/** The word encoding would cut the unknown token's own spelling into words; attacks hide words behind it. */
function wordsWithUnknown({ tokenizer, maxLength }: Model, unknown: string): (texts: readonly string[]) => Encoded {
  const tokensOf = (text: string): number[] =>
    text
      .split(unknown)
      .flatMap((part, i) => [...(i > 0 ? [tokenizer.special.unknown] : []), ...splitWords(part).map((word) => tokenizer.wordToken(word))]);
  return (texts) => arrangeWords(texts.map(tokensOf), tokenizer.special, maxLength);
}
