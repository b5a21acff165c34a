import { readsFirstPieces } from "../../text/word-level-json.js";
import type { Model } from "../model.js";

/** Returns why transformers does not compute the predictions of a saved model, or null. */
export function describeIncompatibility({
  architecture: { head },
  tokenization,
  normalize,
  tokenizer,
  folder,
}: Pick<Model, "architecture" | "tokenization" | "normalize" | "tokenizer" | "folder">): string | null {
  if (tokenization !== "subword" && readsFirstPieces(tokenizer, folder))
    return (
      "The model reads the first piece of each word, which no tokenizer of transformers does, so there is no " +
      "tokenizer.json. Use temper-nlp for predictions."
    );
  if (normalize === "canonical")
    return (
      "The model reads the canonical form of a text, which no tokenizer of transformers computes. " +
      "Use temper-nlp for predictions, or its function canonicalize before the tokenizer."
    );
  if (head === "mlp")
    return (
      "transformers does not have the classification head, which is in head.safetensors; it reads the encoder only. " +
      "Use onnx/model.onnx or temper-nlp for predictions."
    );
  return null;
}
