import { UserError } from "../../base/errors.js";
import { areFinite } from "../../nn/index.js";
import {
  type Device,
  type DType,
  fromBytes,
  keep,
  noGrad,
  normal_,
  Rng,
  scope,
  seedGenerator,
  type Tensor,
  uniform_,
  zeros,
} from "../../tensor/index.js";
import { getEncoderParameterShapes } from "../encoder.js";
import type { EncoderConfig, ParameterShapes } from "../families/family.js";
import { getFamily, isHeadParameter, isNormParameter, isPoolerParameter } from "../families/index.js";
import type { SafetensorsDType, SafetensorsFile } from "./safetensors.js";

const supportedDTypes: Partial<Record<SafetensorsDType, DType>> = {
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  F64: "float64",
};

export type CheckpointNames = Map<string, { file: SafetensorsFile; stored: string }>;

/** Maps the names of a checkpoint with a head to the names in the files, with or without prefix. */
export function mapCheckpointNames(config: EncoderConfig, files: readonly SafetensorsFile[]): CheckpointNames {
  const { prefix, pooler } = getFamily(config);
  const expected = new Map([...getEncoderParameterShapes(config), ...(pooler?.getShapes(config) ?? [])]);
  const names: CheckpointNames = new Map();
  for (const file of files) {
    for (const stored of file.entries.keys()) {
      // Early checkpoints call the weight and bias of a layer normalization gamma and beta.
      const modern = stored
        .replace(/LayerNorm\.gamma$/, "LayerNorm.weight")
        .replace(/LayerNorm\.beta$/, "LayerNorm.bias");
      const lacksPrefix = !modern.startsWith(prefix) && expected.has(prefix + modern);
      names.set(lacksPrefix ? prefix + modern : modern, { file, stored });
    }
  }
  return names;
}

export interface ReadWeightsOptions {
  readonly device?: Device;
  readonly seed?: number;
  readonly headInit?: "normal" | "uniform";
}

/** Reads parameters of these shapes. Missing heads and poolers are initialized. */
export function readWeights(
  { modelType, initializerRange }: EncoderConfig,
  shapes: ParameterShapes,
  names: CheckpointNames,
  options: ReadWeightsOptions,
): { weights: Map<string, Tensor>; newlyInitialized: string[] } {
  const newlyInitialized: string[] = [];
  const rng = new Rng(options.seed ?? 0);
  /** Like transformers, or for a linear layer of the head like PyTorch. Each parameter has its own random stream. */
  const initParameter = (name: string, shape: readonly number[]): Tensor => {
    const tensor = zeros(shape);
    const isNorm = isNormParameter(name);
    const isUniform = options.headInit === "uniform" && isHeadParameter(name) && !isNorm;
    if (name.endsWith(".bias") && !isUniform) return tensor;
    seedGenerator("cpu", rng.fork("initial", name).seed());
    const bound = isUniform ? 1 / Math.sqrt(shapes.get(name.replace(/\.bias$/, ".weight"))![1]!) : 0;
    noGrad(() => {
      if (isNorm) tensor.fill_(1);
      else if (isUniform) uniform_(tensor, -bound, bound);
      else normal_(tensor, 0, initializerRange);
    });
    return tensor;
  };
  const read = (name: string, shape: readonly number[]): Tensor => {
    const source = names.get(name);
    const isOptional = isHeadParameter(name) || isPoolerParameter(name);
    if (!source && !isOptional)
      throw new UserError(
        `The checkpoint lacks ${name} [${shape}], so it is not a complete ${modelType} encoder. ` +
          "Download it again, or use another model.",
      );
    if (!source) newlyInitialized.push(name);
    const tensor = source ? readTensor(source.file, source.stored, shape) : initParameter(name, shape);
    return (options.device && options.device !== "cpu" ? tensor.toDevice(options.device) : tensor).requiresGrad_();
  };
  // Kept only after all are read. If one fails, the scope frees the others.
  const weights = scope(() => {
    const all = [...shapes].map(([name, shape]): [string, Tensor] => [name, scope(() => read(name, shape))]);
    return keep(new Map(all));
  });
  return { weights, newlyInitialized };
}

function readTensor(file: SafetensorsFile, name: string, expected: readonly number[]): Tensor {
  const entry = file.entries.get(name)!;
  const stored = supportedDTypes[entry.dtype];
  if (!stored)
    throw new UserError(
      `${file.path}: tensor ${name} has dtype ${entry.dtype}; expected F32, F16 or BF16. ` +
        "Quantized checkpoints cannot be fine-tuned.",
    );
  if (entry.shape.length !== expected.length || entry.shape.some((size, i) => size !== expected[i]))
    throw new UserError(
      `${file.path}: tensor ${name} has shape [${entry.shape}], but config.json requires [${expected}]. ` +
        "These files do not belong together.",
    );
  const tensor = fromBytes(file.readSync(name), entry.shape, stored, "float32");
  if (!areFinite([tensor]))
    throw new UserError(
      `${file.path}: tensor ${name} contains NaN or infinity. The file is damaged, or its training diverged. ` +
        "Download it again, or use another checkpoint.",
    );
  return tensor;
}
