import { createHash } from "node:crypto";
import { getMaxInputLevel } from "../../nn/index.js";
import { isTf32Allowed } from "../../tensor/index.js";
import { native } from "../../tensor/native.js";
import { hashModelFolder } from "../checkpoint/checkpoint.js";
import type { DeviceConfig } from "../device-config.js";
import type { Model } from "../model.js";
import type { Classifier } from "./classifier-interface.js";
import type { Identified } from "./predictor.js";

export async function identifyModel(
  model: Model,
  { isPacked = false }: Classifier,
  { device, computeDtype, isQuantized = false }: DeviceConfig,
): Promise<Identified> {
  const { session, tokenizer, tokenization, maxLength } = model;
  const modelHash = session ? await session.hash() : await hashModelFolder(model.folder);
  const hashes = { model: modelHash, tokenizer: tokenizer.hash };
  const deviceType = device.replace(/:.*/, "");
  const engine = session ? [session.engine] : [native().versions().libtorch, isTf32Allowed()];
  const identity = [hashes, tokenization, maxLength, computeDtype, deviceType, ...engine];
  if (isQuantized) identity.push(`int8, ${getMaxInputLevel()}`);
  // The last digits of float32 differ from those of padded batches.
  else if (isPacked && computeDtype === "float32") identity.push("packed");
  identity.push("logits");
  const hash = createHash("sha256").update(JSON.stringify(identity)).digest("hex");
  return { hash, hashes, isDeterministic: true };
}
