import type { InferenceSession, InferenceSessionFactory, Tensor as OnnxRuntimeTensor } from "onnxruntime-node";
import { getErrorMessage, UserError } from "../base/errors.js";
import type { Classifier } from "../models/index.js";
import { type PaddedBatch, padBatch } from "../text/batch.js";
import type { Encoding } from "../text/encoding.js";

/** The parts of ONNX Runtime that are used: onnxruntime-node and onnxruntime-web both have them. */
export interface OnnxRuntime {
  readonly InferenceSession: InferenceSessionFactory;
  readonly Tensor: typeof OnnxRuntimeTensor;
}

export interface OnnxClassifierOptions {
  readonly name: string;
  readonly labels: readonly string[];
  readonly padId: number;
  readonly threads: number;
  /** True for 8-bit weights. Inputs have one scale per call, so a text would change the answers to others. */
  readonly isQuantized: boolean;
}

const knownInputs = ["input_ids", "attention_mask", "token_type_ids"];

/** Opens a classifier of an ONNX file, given as its path or its content, and tries it. */
export async function openOnnxClassifier(
  runtime: OnnxRuntime,
  file: string | Uint8Array,
  options: OnnxClassifierOptions,
): Promise<Classifier> {
  const { name, labels, padId, isQuantized } = options;
  const session = await createSession(runtime, file, options);
  try {
    const inputs = checkInputs(session, name);
    checkOutput(session, name);
    const run = (batch: PaddedBatch): Promise<Float32Array> => computeLogits(runtime, session, inputs, batch);
    checkWidth(await tryModel(run, options), options);
    return {
      numLabels: labels.length,
      padId,
      // Batches of equal length need no padding, and their activations fit the cache. With 1, a batch is one text.
      batchTokens: isQuantized ? 1 : 2048,
      batchCost: 32,
      computeLogits: run,
      close: () => void session.release().catch(() => undefined),
    };
  } catch (error) {
    await session.release();
    throw error;
  }
}

async function createSession(
  { InferenceSession: Session }: OnnxRuntime,
  file: string | Uint8Array,
  { name, threads }: OnnxClassifierOptions,
): Promise<InferenceSession> {
  const options: InferenceSession.SessionOptions = {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    // Errors come back as exceptions. The log would print them a second time.
    logSeverityLevel: 4,
    // A thread that spins takes its core from the search, and on a busy host from the other threads.
    extra: { session: { intra_op: { allow_spinning: "0" } } },
  };
  try {
    return await (typeof file === "string" ? Session.create(file, options) : Session.create(file, options));
  } catch (error) {
    const reason = getErrorMessage(error).split("\n")[0]!;
    const remedy = /opset|ir[_ ]version|not (?:a registered|implemented)/i.test(reason)
      ? "Update onnxruntime-node, or export the model with an older opset."
      : "The file may be damaged or incomplete: export or download it again.";
    throw new UserError(`${name}: ONNX Runtime cannot load the file: ${reason.replace(/\.$/, "")}. ${remedy}`, {
      cause: error,
    });
  }
}

function checkInputs({ inputMetadata }: InferenceSession, name: string): ReadonlyMap<string, "int64" | "int32"> {
  const inputs = new Map<string, "int64" | "int32">();
  for (const input of inputMetadata) {
    const isKnown = knownInputs.includes(input.name) && input.isTensor;
    if (!isKnown || (input.type !== "int64" && input.type !== "int32"))
      throw new UserError(
        `${name}: expected the inputs ${knownInputs.join(", ")} of integers, received ${input.name} ` +
          `(${input.isTensor ? input.type : "no tensor"}). Export a model for text classification.`,
      );
    const fixed = input.shape.filter((size) => typeof size === "number" && size > 0);
    if (fixed.length > 0)
      throw new UserError(
        `${name}: expected an input ${input.name} of any size [batch, length], received ` +
          `[${input.shape.join(", ")}]. Export the model with dynamic axes.`,
      );
    inputs.set(input.name, input.type);
  }
  if (inputs.has("input_ids")) return inputs;
  throw new UserError(`${name}: expected an input input_ids, received ${[...inputs.keys()].join(", ") || "none"}.`);
}

function checkOutput({ outputMetadata }: InferenceSession, name: string): void {
  const found = outputMetadata.find((output) => output.name === "logits");
  if (found?.isTensor && found.type === "float32") return;
  const received = outputMetadata.map((output) => `${output.name}${output.isTensor ? ` (${output.type})` : ""}`);
  throw new UserError(
    `${name}: expected an output logits (float32), received ${received.join(", ")}. ` +
      "Export a model for text classification.",
  );
}

/** Two texts of different lengths: a graph with fixed sizes inside fails here, not in an attack. */
async function tryModel(
  run: (batch: PaddedBatch) => Promise<Float32Array>,
  { name, padId }: OnnxClassifierOptions,
): Promise<number> {
  const create = (length: number): Encoding => ({
    ids: new Int32Array(length).fill(padId),
    tokenTypeIds: new Int32Array(length),
    truncated: false,
  });
  try {
    await run(padBatch([create(3)], padId));
    return (await run(padBatch([create(5), create(4)], padId))).length / 2;
  } catch (error) {
    throw new UserError(
      `${name}: ONNX Runtime cannot compute the model for two batches of different sizes: ` +
        `${getErrorMessage(error).split("\n")[0]}. Export it with dynamic axes.`,
      { cause: error },
    );
  }
}

function checkWidth(width: number, { name, labels }: OnnxClassifierOptions): void {
  if (width === labels.length && width > 1) return;
  throw new UserError(
    width === 1
      ? `${name}: expected at least 2 logits per text, received 1. A model with one output is a regression.`
      : `${name}: the model has ${width} logits per text, but config.json has ${labels.length} labels ` +
          `(${labels.join(", ")}). Name each class in id2label of config.json.`,
  );
}

async function computeLogits(
  { Tensor }: OnnxRuntime,
  session: InferenceSession,
  inputs: ReadonlyMap<string, "int64" | "int32">,
  batch: PaddedBatch,
): Promise<Float32Array> {
  const shape = [batch.batchSize, batch.sequenceLength];
  const values: Readonly<Record<string, Int32Array | Uint8Array>> = {
    input_ids: batch.ids,
    attention_mask: batch.attentionMask,
    token_type_ids: batch.tokenTypeIds,
  };
  const feeds: Record<string, OnnxRuntimeTensor> = {};
  for (const [name, type] of inputs)
    feeds[name] =
      type === "int32"
        ? new Tensor(type, Int32Array.from(values[name]!), shape)
        : new Tensor(type, widen(values[name]!), shape);
  const { logits } = await session.run(feeds, ["logits"]);
  return logits!.data as Float32Array;
}

/** Converts integers that are not negative to 64 bits. One BigInt per token would be slow. */
function widen(values: Int32Array | Uint8Array): BigInt64Array {
  const words = new Int32Array(2 * values.length);
  for (let i = 0; i < values.length; i++) words[2 * i] = values[i]!;
  return new BigInt64Array(words.buffer);
}
