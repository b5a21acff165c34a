import { hasOperator } from "../tensor/index.js";
import type { DeviceConfig } from "./device-config.js";
import type { EncoderConfig } from "./families/family.js";
import { getFamily } from "./families/index.js";

/** Whether a model can leave out padding: on a GPU, in bfloat16, if its family supports it. */
export function canPackTexts(config: EncoderConfig, { device, computeDtype }: DeviceConfig): boolean {
  const width = config.hiddenSize / config.numAttentionHeads;
  return (
    device !== "cpu" &&
    computeDtype === "bfloat16" &&
    (getFamily(config).packable ?? false) &&
    // The limits of the flash kernel.
    width % 8 === 0 &&
    width <= 256 &&
    process.env.TEMPER_KERNELS !== "0" &&
    hasOperator("temper::packed_attention")
  );
}

/**
 * Whether a classifier on a CPU leaves out padding. In float32 it does so only on request, because
 * padded batches define the results.
 */
export function canPackOnCpu(config: EncoderConfig, deviceConfig: DeviceConfig): boolean {
  const { device, computeDtype, isQuantized = false, isPacked = false } = deviceConfig;
  const isWanted = isQuantized || isPacked || computeDtype === "bfloat16";
  return device === "cpu" && isWanted && (getFamily(config).packable ?? false);
}
