import { Tokenizer } from "@huggingface/tokenizers";
import { UserError } from "../base/errors.js";
import { batchByLength } from "../models/inference/inference-batches.js";
import type { Predictor, PreparedText } from "../models/inference/predictor.js";
import { createScore, type Score } from "../models/inference/score.js";
import { padBatch } from "../text/batch.js";
import { canonicalize } from "../text/canonicalize.js";
import type { Encoding } from "../text/encoding.js";
import { type OnnxRuntime, openOnnxClassifier } from "./onnx-classifier.js";

/** Reads a file of a model folder, such as "config.json"; null if it is missing. */
export type ReadFile = (path: string) => Promise<Uint8Array | null>;

/** A model of `temper export` on any ONNX Runtime, without Node.js and libtorch. */
export interface PortableModel {
  readonly labels: readonly string[];
  readonly unknown: string;
  readonly predictor: Predictor<PreparedText & { readonly encoding: Encoding }, Score>;
  close(): void;
}

export async function readFolderJson(read: ReadFile, path: string): Promise<unknown> {
  const bytes = await read(path);
  return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes));
}

async function readNeeded(read: ReadFile, path: string): Promise<object> {
  const found = await readFolderJson(read, path);
  if (typeof found === "object" && found !== null) return found;
  throw new UserError(`Expected ${path}. Pass the folder that temper export has written.`);
}

/** Opens the folder that `temper export` wrote. The 8-bit file is used if there is no other, or on request. */
export async function openPortableModel(
  read: ReadFile,
  runtime: OnnxRuntime,
  { threads = 1, quantized = false }: { readonly threads?: number; readonly quantized?: boolean } = {},
): Promise<PortableModel> {
  const config: {
    readonly id2label?: Readonly<Record<string, string>>;
    readonly pad_token_id?: number;
    readonly max_position_embeddings?: number;
    readonly temper?: { readonly maxLength?: number; readonly normalize?: string; readonly votes?: boolean };
  } = await readNeeded(read, "config.json");
  if (config.temper?.votes)
    throw new UserError("This model votes by groups of words, which only temper serve and temper predict can do.");
  const settings: {
    readonly unk_token?: string | { readonly content: string };
    readonly model_max_length?: number;
  } = await readNeeded(read, "tokenizer_config.json");
  const tokenizer = new Tokenizer(await readNeeded(read, "tokenizer.json"), settings);
  const names = ["onnx/model.onnx", "onnx/model_quantized.onnx"].slice(quantized ? 1 : 0);
  const full = await read(names[0]!);
  const [name, file] = full === null ? [names[1], names[1] ? await read(names[1]) : null] : [names[0], full];
  if (name === undefined || file === null)
    throw new UserError(`Expected ${names[0]}. Pass the folder that temper export has written.`);
  const labels = Object.values(config.id2label ?? {});
  const padId = config.pad_token_id ?? 0;
  const isQuantized = name.includes("quantized");
  const classifier = await openOnnxClassifier(runtime, file, { name, labels, padId, threads, isQuantized });
  const maxLength = config.temper?.maxLength ?? settings.model_max_length ?? config.max_position_embeddings ?? 512;
  const isCanonical = config.temper?.normalize === "canonical";
  const { unk_token: unknown = "[UNK]" } = settings;
  const { numLabels, batchTokens, batchCost } = classifier;
  return {
    labels,
    unknown: typeof unknown === "string" ? unknown : unknown.content,
    predictor: {
      name,
      numLabels,
      returnsLogits: true,
      callLimits: { maxTexts: 4096 },
      prepare: (texts) =>
        texts.map((fields) => {
          if (fields.length !== 1) throw new UserError("Expected a single text, received a pair.");
          const encoding = encode(tokenizer, isCanonical ? canonicalize(fields[0]!) : fields[0]!, maxLength);
          const { ids, truncated } = encoding;
          return { encoding, content: ids.join(), length: ids.length, truncated };
        }),
      async predict(items) {
        const scores: Score[] = [];
        const encodings = items.map(({ encoding }) => encoding);
        for (const batch of batchByLength(encodings, batchTokens, batchCost)) {
          const own = batch.map((index) => encodings[index]!);
          const values = await classifier.computeLogits(padBatch(own, padId));
          for (const [row, index] of batch.entries())
            scores[index] = createScore(values.slice(row * numLabels, (row + 1) * numLabels), true);
        }
        return scores;
      },
    },
    close: () => classifier.close(),
  };
}

/** A text that is too long loses its last tokens, but not the special one at its end. */
function encode(tokenizer: Tokenizer, text: string, maxLength: number): Encoding {
  const { ids } = tokenizer.encode(text);
  const kept = ids.length > maxLength ? [...ids.slice(0, maxLength - 1), ids.at(-1)!] : ids;
  return {
    ids: Int32Array.from(kept),
    tokenTypeIds: new Int32Array(kept.length),
    truncated: kept.length < ids.length,
  };
}
